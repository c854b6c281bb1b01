// The New job page: a form made from the job document's schema beside the same document as TOML. The draft is previewed
// while it is written; errors are shown at their fields.
import { call, problemsOf, randomId } from "./api.js";
import { el } from "./dom.js";
import { jobDependencyField, loadOpenJobs, taskDependencyField } from "./job-dependencies.js";
import { addTask, draft, removeTask, renameTask } from "./job-draft.js";
import { makeField } from "./job-fields.js";
import { drawGraph } from "./job-graph.js";
import { showNoPreview, submitRequest, updatePreview } from "./job-preview.js";
import { showProblems, showTomlProblems } from "./job-problems.js";
import { fieldsOf, leadingFields, loadSchema } from "./job-schema.js";
import { toToml } from "./job-toml.js";

const form = document.getElementById("job-form");
const toml = document.getElementById("toml");
const button = document.getElementById("submit");

// Timers that wait for a pause in typing.
const timers = {};
const afterPause = (name, millis, run) => { clearTimeout(timers[name]); timers[name] = setTimeout(run, millis); };

const showDraft = () => {
  drawGraph();
  afterPause("update", 250, updatePreview);
};
const changed = () => {
  toml.value = toToml(draft.doc);
  showDraft();
};

// The other tasks offer a renamed task under its new name.
const redrawTaskDependencies = () => draft.doc.tasks.forEach((task, i) => {
  const path = `tasks[${i}].`;
  form.querySelector(`[data-path="${CSS.escape(`${path}after`)}"]`).replaceWith(taskDependencyField(task, path, changed));
});
const taskField = (task, path, name, schema) => {
  if (name === "after") return taskDependencyField(task, path, changed);
  return makeField(task, path, name, schema, (before, after) => {
    if (name === "name") {
      renameTask(before, after ?? "");
      afterPause("rename", 400, redrawTaskDependencies);
    }
    changed();
  });
};

const taskCard = (task, i, alone) => {
  const path = `tasks[${i}].`, fields = fieldsOf("TaskDoc"), leading = leadingFields("TaskDoc");
  const further = Object.keys(fields).filter((name) => !leading.includes(name));
  const make = (names) => el("div", { class: "fields" }, ...names.map((name) => taskField(task, path, name, fields[name])));
  const remove = el("button", { type: "button", class: "plain", hidden: alone }, "Remove");
  remove.addEventListener("click", () => { removeTask(task); draw(); changed(); });
  return el("section", { class: "card task", "aria-label": `Task ${i + 1}` },
    el("div", { class: "title" }, el("h3", {}, `Task ${i + 1}`), remove),
    make(leading),
    el("details", { open: further.some((name) => task[name] !== undefined) }, el("summary", {}, "More options"), make(further)));
};

// The job's own fields. Its tasks have cards of their own, and its user a field beside the preview.
const jobCard = () => {
  const fields = fieldsOf("JobDoc"), leading = leadingFields("JobDoc");
  const further = Object.keys(fields).filter((name) => ![...leading, "tasks", "user", "after"].includes(name));
  const made = [...leading, ...further].map((name) => makeField(draft.doc, "", name, fields[name], changed));
  return el("section", { class: "card", "aria-label": "Job" }, el("h3", {}, "Job"),
    el("div", { class: "fields" }, ...made, jobDependencyField(changed)));
};

const draw = () => {
  const { tasks } = draft.doc;
  const add = el("button", { type: "button", class: "plain", id: "add-task" }, "Add a task");
  add.addEventListener("click", () => {
    addTask();
    draw();
    changed();
    [...form.querySelectorAll(".f-command textarea")].pop()?.focus();
  });
  const cards = tasks.map((task, i) => taskCard(task, i, tasks.length === 1));
  form.querySelector("#fields").replaceChildren(jobCard(), ...cards, add);
};

const readToml = async () => {
  try {
    draft.doc = (await call("POST", "/v1/jobs/document", { text: toml.value })).doc;
    toml.removeAttribute("aria-invalid");
    draw();
    showDraft();
  } catch (error) {
    showTomlProblems(problemsOf(error));
    showNoPreview("wrong-word", "The TOML cannot be read; the error is shown below it.");
  }
};

const submit = async () => {
  button.disabled = true;
  try {
    // The same key again is the same job, should the reply be lost and the button pressed once more.
    form.dataset.key ||= randomId();
    const { job } = await call("POST", "/v1/jobs", { ...submitRequest(), idempotency_key: form.dataset.key });
    location.assign(`/jobs/${job}`);
  } catch (error) {
    delete form.dataset.key;
    showProblems(problemsOf(error));
    form.querySelector("[aria-invalid]")?.focus();
    button.disabled = false;
  }
};

// Where tasks run as the user who is named, home and environment are that user's, and the server fills them in.
const followUser = (user, workdir) => {
  const own = { user: user.value, home: workdir.value };
  user.addEventListener("input", () => {
    const same = user.value.trim() === own.user;
    if (!same && workdir.value === own.home) workdir.value = "";
    else if (same && !workdir.value) workdir.value = own.home;
    document.getElementById("environment").hidden = !same;
  });
};

const user = document.getElementById("user"), workdir = document.getElementById("workdir");
if (user.dataset.shared) followUser(user, workdir);
for (const input of [user, workdir]) input.addEventListener("input", showDraft);
toml.addEventListener("input", () => afterPause("update", 350, readToml));
form.addEventListener("submit", (event) => { event.preventDefault(); void submit(); });

await loadSchema();
draw();
changed();
await loadOpenJobs();
