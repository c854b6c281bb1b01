// The fields for dependencies of a new job: on other tasks of the job, and on other jobs.
import { call } from "./api.js";
import { el } from "./dom.js";
import { draft, jobDependencies, setJobDependencies, setTaskDependencies, taskDependencies } from "./job-draft.js";
import { choicesIn } from "./job-schema.js";

// A menu of how a dependency must end.
const conditionMenu = (label, on) => {
  const option = ({ value, title, description }) => el("option", { value, title: description, selected: on === value }, title);
  return el("select", { "aria-label": label }, ...choicesIn("DependencyCondition").map(option));
};
const errorLine = () => el("p", { class: "wrong-word", hidden: true });

const taskChoice = (task, other, onChange) => {
  const current = taskDependencies(task).find((one) => one.task === other.name);
  const box = el("input", { type: "checkbox" });
  box.checked = Boolean(current);
  const menu = conditionMenu(`how ${other.name} must end`, current?.on);
  menu.disabled = !current;
  const update = () => {
    const rest = taskDependencies(task).filter((one) => one.task !== other.name);
    setTaskDependencies(task, box.checked ? [...rest, { task: other.name, on: menu.value }] : rest);
    menu.disabled = !box.checked;
    onChange();
  };
  box.addEventListener("change", update);
  menu.addEventListener("change", update);
  return el("span", { class: "dep" }, el("label", {}, box, ` ${other.name || "unnamed"}`), menu);
};

// One line for each other task: whether this one waits for it, and how it must end.
export const taskDependencyField = (task, path, onChange) => {
  const others = draft.doc.tasks.filter((other) => other !== task);
  const choices = others.map((other) => taskChoice(task, other, onChange));
  const none = others.length ? null : el("span", { class: "quiet" }, "no other tasks yet");
  return el("fieldset", { class: "field f-after", "data-path": `${path}after` },
    el("legend", {}, "starts after"), ...choices, none, errorLine());
};

const jobRow = (list, i, onChange, redraw) => {
  const { job, on } = list[i];
  const change = (part) => { list[i] = { ...list[i], ...part }; setJobDependencies(list); onChange(); };
  const number = el("input", { "aria-label": "number of the job", list: "open-jobs", value: job, inputmode: "numeric",
    autocomplete: "off", "data-path": `after[${i}]` });
  number.addEventListener("input", () => change({ job: number.value.trim() }));
  const menu = conditionMenu(`how job ${job} must end`, on);
  menu.addEventListener("change", () => change({ on: menu.value }));
  const remove = el("button", { type: "button", class: "plain", "aria-label": `do not wait for job ${job}` }, "✕");
  remove.addEventListener("click", () => { setJobDependencies(list.filter((_, at) => at !== i)); redraw(); });
  return el("span", { class: "dep" }, number, menu, remove);
};

// One line for each job to wait for, its number chosen among the unfinished ones or typed in.
export const jobDependencyField = (onChange) => {
  const list = jobDependencies();
  const box = el("fieldset", { class: "field f-after f-job-after", "data-path": "after" },
    el("legend", { title: "Jobs that must end before this one starts" }, "starts after jobs"));
  const redraw = () => {
    const fresh = jobDependencyField(onChange);
    box.replaceWith(fresh);
    onChange();
    return fresh;
  };
  const add = el("button", { type: "button", class: "plain", id: "add-job-after" }, list.length ? "Another job" : "Wait for a job");
  add.addEventListener("click", () => {
    setJobDependencies([...list, { job: "", on: "ok" }]);
    [...redraw().querySelectorAll("input")].pop()?.focus();
  });
  box.append(...list.map((_, i) => jobRow(list, i, onChange, redraw)), add, errorLine());
  return box;
};

export const loadOpenJobs = async () => {
  const { items } = await call("GET", "/v1/jobs?limit=200");
  const options = items.map(({ job, name, user, state }) => el("option", { value: job }, `${name} (${user}, ${state})`));
  document.getElementById("open-jobs").replaceChildren(...options);
};
