// The form of a new job, made from the job document's schema: what the schema has, the form has. The form and the TOML
// are two views of one document; it is previewed as it is written, and errors are shown at their fields.
"use strict";
const form = document.getElementById("job-form");
const toml = document.getElementById("toml");
const cloned = document.getElementById("cloned");
const seen = { schema: null, doc: cloned ? JSON.parse(cloned.dataset.doc) : { name: "", tasks: [{ name: "", command: "" }] } };
const FIRST = ["name", "gpus", "gpu_memory", "timeout", "command", "after"];
const JOB_FIRST = ["name", "priority", "project"];
const SECOND = ["gpu_type", "array", "cpus", "memory", "retries", "expected"];
// Examples, never values: "e.g." tells them apart from what is filled in; defaults are said as defaults.
const HINTS = { gpu_memory: "e.g. 6GiB", timeout: "e.g. 2h", expected: "e.g. 40m", grace: "default 10s", array: "e.g. 1-100%8", cpus: "e.g. 0.5",
  memory: "e.g. 4GiB", gpu_type: "e.g. V100", gpu_scope: "e.g. 0, 1", gpu_preferred: "e.g. 0", command: "e.g. python train.py",
  workdir: "as above", env: "e.g. NAME=value, one per line", stdout: "e.g. out.txt", stderr: "e.g. err.txt", gpus: "none", priority: "default 0", weight: "default 1",
  deadline: "e.g. 24h", retries: "default 0", batch_time: "e.g. 2s", item_time: "e.g. 100ms", resume_time: "e.g. 5s", profile: "e.g. resnet50",
  steps: "e.g. 10000", project: "e.g. vision", idle: "e.g. 30m", name: "default: script" };
const LISTS = ["gpu_type", "gpu_scope", "gpu_preferred"];
const el = (tag, attributes, ...children) => {
  const one = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === true) one.setAttribute(name, ""); else if (value !== false && value !== undefined) one.setAttribute(name, value);
  }
  one.append(...children.filter((c) => c !== null));
  return one;
};
const words = (name) => name.replaceAll("_", " ").replace(/\b[gc]pus?\b/, (unit) => unit.slice(0, 3).toUpperCase() + unit.slice(3));
const resolve = (schema) => {
  let one = schema;
  for (let i = 0; i < 4; i += 1) {
    if (one.$ref) one = { ...seen.schema.$defs[one.$ref.split("/").pop()], ...one, $ref: undefined };
    else if (one.anyOf && one.anyOf.some((s) => s.type === "null")) one = { ...one, ...resolve(one.anyOf.find((s) => s.type !== "null")), anyOf: undefined, description: one.description };
    else break;
  }
  return one;
};
const choices = (schema) => schema.enum || (schema.oneOf || []).map((o) => o.const).filter((c) => c !== undefined);
const types = (schema) => [].concat(schema.type || []);

// A field's value as text, and back; nothing where it is left as it is.
const show = (name, value) => {
  if (value === undefined || value === null) return "";
  if (name === "env") return Object.entries(value).map(([k, v]) => `${k}=${v}`).join("\n");
  if (Array.isArray(value)) return name === "command" ? JSON.stringify(value) : value.join(", ");
  return String(value);
};
const read = (name, schema, text) => {
  if (text.trim() === "") return undefined;
  if (name === "env") return Object.fromEntries(text.split("\n").filter((l) => l.trim()).map((l) => [l.split("=")[0].trim(), l.includes("=") ? l.slice(l.indexOf("=") + 1) : ""]));
  if (name === "command" && text.trim().startsWith("[")) { try { return JSON.parse(text); } catch { return text; } }
  if (LISTS.includes(name)) return text.split(",").map((t) => t.trim()).filter(Boolean).map((t) => (/^\d+$/.test(t) && name !== "gpu_type" ? Number(t) : t));
  if (name === "cpus" && isFinite(Number(text))) return Number(text);
  if (types(schema).includes("number")) return isFinite(Number(text)) ? Number(text) : text.trim();
  if (types(schema).includes("integer")) return /^-?\d+$/.test(text.trim()) ? Number(text) : text.trim();
  return text;
};

const changed = (fromText) => {
  if (!fromText) { toml.value = written(seen.doc); }
  drawGraph();
  clearTimeout(changed.timer);
  changed.timer = setTimeout(preview, 250);
};
const field = (owner, path, name, schema) => {
  const full = resolve(schema), id = `f-${path}${name}`.replace(/[^a-z0-9-]/gi, "-"), options = choices(full);
  let input;
  if (types(full).includes("boolean")) {
    input = el("input", { type: "checkbox", id });
    input.checked = owner[name] === true;
    input.addEventListener("change", () => { if (input.checked) owner[name] = true; else delete owner[name]; changed(); });
  } else if (options.length) {
    input = el("select", { id }, ...options.map((o) => el("option", { value: o, selected: owner[name] === o }, o)));
    input.addEventListener("change", () => { if (input.value === options[0]) delete owner[name]; else owner[name] = input.value; changed(); });
  } else {
    const long = { env: "2", command: "1" }[name];
    input = el(long ? "textarea" : "input", { id, placeholder: HINTS[name], spellcheck: "false", autocomplete: "off",
      ...(long ? { rows: long } : { inputmode: types(full).includes("integer") ? "numeric" : undefined }) });
    input.value = show(name, owner[name]);
    input.addEventListener("input", () => {
      const value = read(name, full, input.value);
      if (value === undefined) delete owner[name]; else owner[name] = value;
      if (name === "name" && path) renamed(owner);
      changed();
    });
  }
  input.dataset.path = `${path}${name}`;
  const label = el("label", { for: id, title: full.description }, words(name));
  return el("div", { class: `field f-${name}` }, label, input, el("p", { class: "wrong-word", id: `${id}-wrong`, hidden: true }));
};

// How what is waited for must end.
const ENDS = [["ok", "succeeded"], ["fail", "failed"], ["any", "ended"]];
// What a task waits for: one box for each task before or after it, and how that one must end.
const afterOf = (task) => [].concat(task.after || []).map((a) => (typeof a === "string" ? { task: a, on: "ok" } : { on: "ok", ...a }));
const setAfter = (task, list) => {
  if (!list.length) { delete task.after; return; }
  task.after = list.map((a) => (a.on === "ok" ? a.task : { task: a.task, on: a.on }));
};
const afterField = (task, path) => {
  const others = seen.doc.tasks.filter((t) => t !== task);
  const box = el("fieldset", { class: "field f-after" }, el("legend", {}, "starts after"));
  box.dataset.path = `${path}after`;
  for (const other of others) {
    const now = afterOf(task).find((a) => a.task === other.name);
    const tick = el("input", { type: "checkbox" });
    tick.checked = Boolean(now);
    const on = el("select", { "aria-label": `how ${other.name} must end` }, ...ENDS.map(([v, w]) => el("option", { value: v, selected: now && now.on === v }, w)));
    on.disabled = !now;
    const put = () => {
      const rest = afterOf(task).filter((a) => a.task !== other.name);
      setAfter(task, tick.checked ? [...rest, { task: other.name, on: on.value }] : rest);
      on.disabled = !tick.checked;
      changed();
    };
    tick.addEventListener("change", put);
    on.addEventListener("change", put);
    box.append(el("span", { class: "dep" }, el("label", {}, tick, ` ${other.name || "unnamed"}`), on));
  }
  if (!others.length) box.append(el("span", { class: "quiet" }, "no other tasks yet"));
  box.append(el("p", { class: "wrong-word", hidden: true }));
  return box;
};
// Jobs that must end first: a row for each, its number chosen among those that are not over or typed in.
const jobsAfter = (doc) => [].concat(doc.after || []).map((a) => (typeof a === "object" ? { on: "ok", ...a } : { job: String(a), on: "ok" }));
const setJobsAfter = (doc, list) => {
  if (!list.length) { delete doc.after; return; }
  doc.after = list.map((a) => (a.on === "ok" ? a.job : { job: a.job, on: a.on }));
};
const jobAfterField = (doc) => {
  const box = el("fieldset", { class: "field f-after f-job-after" }, el("legend", { title: "Jobs that must end before this one starts" }, "starts after jobs"));
  box.dataset.path = "after";
  const again = () => { box.replaceWith(jobAfterField(doc)); changed(); };
  const list = jobsAfter(doc);
  list.forEach((one, i) => {
    const number = el("input", { "aria-label": "number of the job", list: "open-jobs", value: one.job, inputmode: "numeric", autocomplete: "off" });
    number.dataset.path = `after[${i}]`;
    number.addEventListener("input", () => { list[i] = { ...list[i], job: number.value.trim() }; setJobsAfter(doc, list); changed(); });
    const on = el("select", { "aria-label": `how job ${one.job} must end` }, ...ENDS.map(([v, w]) => el("option", { value: v, selected: one.on === v }, w)));
    on.addEventListener("change", () => { list[i] = { ...list[i], on: on.value }; setJobsAfter(doc, list); changed(); });
    const remove = el("button", { type: "button", class: "plain", "aria-label": `do not wait for job ${one.job}` }, "✕");
    remove.addEventListener("click", () => { setJobsAfter(doc, list.filter((_, at) => at !== i)); again(); });
    box.append(el("span", { class: "dep" }, number, on, remove));
  });
  const add = el("button", { type: "button", class: "plain", id: "add-job-after" }, list.length ? "Another job" : "Wait for a job");
  add.addEventListener("click", () => {
    setJobsAfter(doc, [...list, { job: "", on: "ok" }]);
    again();
    [...form.querySelectorAll(".f-job-after input")].pop()?.focus();
  });
  box.append(add, el("p", { class: "wrong-word", hidden: true }));
  return box;
};
const listOpenJobs = async () => {
  const known = await call("GET", "/v1/jobs?limit=200");
  document.getElementById("open-jobs").replaceChildren(...known.items.map((j) => el("option", { value: j.job }, `${j.name} (${j.user}, ${j.state})`)));
};
let taskNames = new Map();
const renamed = (task) => {
  const before = taskNames.get(task);
  for (const other of seen.doc.tasks) {
    const list = afterOf(other);
    if (list.some((a) => a.task === before)) setAfter(other, list.map((a) => (a.task === before ? { ...a, task: task.name || "" } : a)));
  }
  taskNames.set(task, task.name);
  clearTimeout(renamed.timer);
  renamed.timer = setTimeout(() => {
    for (const box of form.querySelectorAll(".task .f-after")) {
      const path = box.dataset.path.replace(/after$/, ""), at = Number(path.match(/\d+/)[0]);
      box.replaceWith(afterField(seen.doc.tasks[at], path));
    }
  }, 400);
};
const draw = () => {
  const task = resolve({ $ref: "#/$defs/TaskDoc" }).properties, job = resolve({ $ref: "#/$defs/JobDoc" }).properties;
  const known = Object.keys(task), rest = known.filter((n) => ![...FIRST, ...SECOND].includes(n));
  const make = (owner, path, names) => names.map((n) => (n === "after" ? (path ? afterField(owner, path) : jobAfterField(owner)) : field(owner, path, n, (path ? task : job)[n])));
  taskNames = new Map(seen.doc.tasks.map((t) => [t, t.name]));
  const cards = seen.doc.tasks.map((t, i) => {
    const path = `tasks[${i}].`, one = seen.doc.tasks.length === 1;
    const remove = el("button", { type: "button", class: "plain", hidden: one }, "Remove");
    remove.addEventListener("click", () => {
      seen.doc.tasks.splice(i, 1);
      for (const other of seen.doc.tasks) setAfter(other, afterOf(other).filter((a) => a.task !== t.name));
      draw();
      changed();
    });
    const more = rest.some((n) => t[n] !== undefined);
    return el("section", { class: "card task", "aria-label": `Task ${i + 1}` }, el("div", { class: "title" }, el("h3", {}, `Task ${i + 1}`), remove),
      el("div", { class: "fields" }, ...make(t, path, [...FIRST, ...SECOND].filter((n) => known.includes(n)))),
      el("details", { open: more }, el("summary", {}, "More options"), el("div", { class: "fields" }, ...make(t, path, rest))));
  });
  const add = el("button", { type: "button", class: "plain", id: "add-task" }, "Add a task");
  add.addEventListener("click", () => {
    // One task needs no name; several are told apart by theirs.
    if (!seen.doc.tasks[0].name) seen.doc.tasks[0].name = "task-1";
    const names = seen.doc.tasks.map((t) => t.name);
    let n = names.length + 1;
    while (names.includes(`task-${n}`)) n += 1;
    const last = names[names.length - 1];
    seen.doc.tasks.push({ name: `task-${n}`, command: "", ...(last ? { after: [last] } : {}) });
    draw();
    changed();
    [...form.querySelectorAll(".f-command textarea")].pop()?.focus();
  });
  const said = Object.keys(job).filter((n) => !["tasks", "user"].includes(n));
  const jobNames = [...JOB_FIRST.filter((n) => said.includes(n)), ...said.filter((n) => ![...JOB_FIRST, "after"].includes(n)), "after"];
  form.querySelector("#fields").replaceChildren(el("section", { class: "card", "aria-label": "Job" }, el("h3", {}, "Job"), el("div", { class: "fields" }, ...make(seen.doc, "", jobNames))), ...cards, add);
  drawGraph();
};

// Dependencies drawn as they are added: each task right of all it waits for.
const NS = "http://www.w3.org/2000/svg";
const svg = (tag, attributes, text) => {
  const one = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
  if (text !== undefined) one.textContent = text;
  return one;
};
const drawGraph = () => {
  const box = document.getElementById("new-graph"), tasks = seen.doc.tasks;
  box.hidden = tasks.length < 2 || tasks.length > 60;
  if (box.hidden) return;
  const index = new Map(tasks.map((t, i) => [t.name, i])), depth = tasks.map(() => 0);
  for (let round = 0; round < tasks.length; round += 1) tasks.forEach((t, i) => { for (const a of afterOf(t)) if (index.has(a.task)) depth[i] = Math.min(tasks.length, Math.max(depth[i], depth[index.get(a.task)] + 1)); });
  const rows = new Map(), at = tasks.map((_, i) => { const r = rows.get(depth[i]) || 0; rows.set(depth[i], r + 1); return [4 + depth[i] * 190, 4 + r * 52]; });
  const width = 154 + 8 + Math.max(...depth) * 190, height = 40 + 8 + (Math.max(...rows.values()) - 1) * 52;
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": tasks.map((t) => `${t.name}${afterOf(t).length ? ` after ${afterOf(t).map((a) => a.task).join(" and ")}` : ""}`).join("; ") });
  tasks.forEach((t, i) => { for (const a of afterOf(t)) { const from = index.get(a.task); if (from === undefined) continue;
    const [x1, y1, x2, y2] = [at[from][0] + 154, at[from][1] + 20, at[i][0], at[i][1] + 20], m = (x1 + x2) / 2;
    picture.append(svg("path", { class: "edge", d: `M${x1} ${y1}C${m} ${y1} ${m} ${y2} ${x2} ${y2}` })); } });
  tasks.forEach((t, i) => {
    const g = svg("g", { class: "node" });
    const most = t.array ? 9 : 16;
    const name = (t.name || "unnamed").slice(0, most) + ((t.name || "").length > most ? "…" : "");
    g.append(svg("rect", { x: at[i][0], y: at[i][1], width: 154, height: 40, rx: 8 }), svg("text", { class: "name", x: at[i][0] + 12, y: at[i][1] + 25 }, name + (t.array ? ` × ${String(t.array).slice(0, 9)}` : "")));
    picture.append(g);
  });
  box.querySelector("div").replaceChildren(picture);
};

// The document as TOML.
const quoted = (text) => JSON.stringify(String(text)).replaceAll("\u007f", "\\u007f");
const literal = (value) => {
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (value && typeof value === "object") return `{ ${Object.entries(value).map(([k, v]) => `${key(k)} = ${literal(v)}`).join(", ")} }`;
  return typeof value === "string" ? quoted(value) : String(value);
};
const key = (name) => (/^[A-Za-z0-9_-]+$/.test(name) ? name : quoted(name));
const written = (doc) => {
  const lines = [];
  for (const [name, value] of Object.entries(doc)) if (name !== "tasks" && value !== undefined && value !== "") lines.push(`${key(name)} = ${literal(value)}`);
  for (const task of doc.tasks) {
    lines.push("", "[[tasks]]");
    for (const [name, value] of Object.entries(task)) if (value !== undefined && (value !== "" || name === "command")) lines.push(`${key(name)} = ${literal(value)}`);
  }
  return `${lines.join("\n").trim()}\n`;
};

const wrongAt = (problems) => {
  for (const old of form.querySelectorAll("[aria-invalid]")) old.removeAttribute("aria-invalid");
  for (const old of form.querySelectorAll(".field .wrong-word")) { old.hidden = true; old.textContent = ""; }
  document.getElementById("toml-wrong").replaceChildren();
  const left = [];
  for (const problem of problems) {
    const path = problem.path.replace(/^(command|gpu|timeout|array|env|cpus|memory|retries)/, "tasks[0].$1");
    const parts = [path, problem.path];
    for (let part = path; /[.[]/.test(part);) { part = part.replace(/[.[][^.[]*$/, ""); parts.push(part); }
    const input = parts.map((p) => form.querySelector(`[data-path="${CSS.escape(p)}"]`)).find(Boolean);
    if (!input) { left.push(problem); continue; }
    input.setAttribute("aria-invalid", "true");
    const say = input.closest(".field").querySelector(".wrong-word");
    say.textContent = problem.help ? `${problem.message}; ${problem.help}` : problem.message;
    say.hidden = false;
    if (say.id) input.setAttribute("aria-describedby", say.id);
    const hidden = input.closest("details");
    if (hidden) hidden.open = true;
  }
  document.getElementById("wrong").replaceChildren(...left.map(inWords));
};
const inWords = (p) => el("p", { class: "wrong-word" }, `${p.line ? `line ${p.line}: ` : ""}${p.path ? `${p.path}: ` : ""}${p.message}${p.help ? `; ${p.help}` : ""}`);
// A text that cannot be read is no form: what is wrong with it is said beneath it, and the form stays as it was.
const wrongText = (problems) => {
  asked += 1;
  wrongAt([]);
  toml.setAttribute("aria-invalid", "true");
  document.getElementById("toml-wrong").replaceChildren(...problems.map(inWords));
  const box = document.getElementById("preview");
  box.removeAttribute("aria-busy");
  box.replaceChildren(el("p", { class: "wrong-word" }, "The TOML cannot be read; the error is shown below it."));
  document.getElementById("submit").disabled = true;
};
const submission = () => {
  const doc = JSON.parse(JSON.stringify(seen.doc));
  if (!doc.name) delete doc.name;
  if (doc.tasks.length === 1 && !doc.tasks[0].name) delete doc.tasks[0].name;
  const user = document.getElementById("user").value.trim(), workdir = document.getElementById("workdir").value.trim();
  return { doc, user: user || undefined, workdir: workdir || undefined, login_environment: true };
};
// A range of seconds from now, as `in_words` in pages/words.rs says it.
const range = (low, high) => {
  const [unit, name] = high < 60 ? [1, "s"] : high < 5400 ? [60, "min"] : high < 129600 ? [3600, "h"] : [86400, "d"];
  const [from, to] = [low, high].map((seconds) => Math.floor((seconds + unit / 2) / unit));
  return to === 0 ? "now" : from === 0 ? `within ${to} ${name}` : from === to ? `in ${to} ${name}` : `in ${from}–${to} ${name}`;
};
const when = (p) => {
  if (!p.expected_start) return p.expected_start_reason || "unknown";
  const [low, high] = [p.expected_start.low, p.expected_start.high].map((t) => Math.max(0, (Date.parse(t) - shownNow()) / 1000));
  return p.expected_start_reason ? `${range(low, high)} (${p.expected_start_reason})` : range(low, high);
};
const place = (p) => (p.starts_now ? "starts immediately" : p.position ? `position ${p.position} in the queue` : "waits");
let asked = 0;
const preview = async () => {
  const box = document.getElementById("preview"), mine = (asked += 1);
  const button = document.getElementById("submit");
  if (!seen.doc.tasks.some((t) => String(t.command || "").trim())) {
    box.replaceChildren(el("p", { class: "quiet" }, "Enter a command to see when it would start."));
    wrongAt([]);
    button.disabled = true;
    return;
  }
  box.setAttribute("aria-busy", "true");
  try {
    const p = await call("POST", "/v1/jobs?dry_run=true", submission());
    if (mine !== asked) return;
    box.removeAttribute("aria-busy");
    wrongAt(p.warnings || []);
    button.disabled = false;
    const rows = p.alternatives.map((a) => el("tr", {}, el("th", { scope: "row" }, el("code", {}, a.change)), el("td", { class: "n" }, a.starts_now ? "–" : String(a.position ?? "–")), el("td", { class: "n" }, a.starts_now ? "now" : (a.expected_start ? when(a) : "unknown"))));
    const parts = [
      el("p", { class: "big" }, el("span", { class: `badge ${p.starts_now ? "succeeded" : "ready"}` }, el("span", { "aria-hidden": "true" }, p.starts_now ? "▶" : "◔"), ` ${place(p)}`)),
      p.starts_now ? null : el("p", {}, el("span", { class: "quiet" }, "expected start "), el("b", {}, when(p))),
      p.starts_now ? null : el("p", { class: "quiet" }, p.why.join("; ")),
      rows.length ? el("table", { class: "line tight" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "if it asked for"), el("th", { scope: "col", class: "n" }, "position"), el("th", { scope: "col", class: "n" }, "start"))), el("tbody", {}, ...rows)) : null];
    box.replaceChildren(...parts.filter(Boolean));
  } catch (error) {
    if (mine !== asked) return;
    box.removeAttribute("aria-busy");
    button.disabled = true;
    wrongAt(error.problems && error.problems.length ? error.problems : [{ path: "", message: error.detail || String(error) }]);
    box.replaceChildren(el("p", { class: "wrong-word" }, "This job would be rejected; see the fields marked in red."));
  }
};
toml.addEventListener("input", () => {
  clearTimeout(changed.timer);
  changed.timer = setTimeout(async () => {
    try {
      const { doc } = await call("POST", "/v1/jobs/document", { text: toml.value });
      seen.doc = doc;
      draw();
      changed(true);
    } catch (error) { wrongText(error.problems && error.problems.length ? error.problems : [{ path: "", message: error.detail }]); }
  }, 350);
});
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = document.getElementById("submit");
  button.disabled = true;
  try {
    form.dataset.key ||= unlikelyAgain();
    const made = await call("POST", "/v1/jobs", { ...submission(), idempotency_key: form.dataset.key });
    location.assign(`/jobs/${made.job}`);
  } catch (error) {
    delete form.dataset.key;
    wrongAt(error.problems && error.problems.length ? error.problems : [{ path: "", message: error.detail || String(error) }]);
    form.querySelector("[aria-invalid]")?.focus();
    button.disabled = false;
  }
});
// Where tasks run as the user who is named, home and environment are that user's: the server fills in what is left open.
const userBox = document.getElementById("user"), workdirBox = document.getElementById("workdir");
if (userBox.dataset.shared) {
  const own = { user: userBox.value, home: workdirBox.value };
  userBox.addEventListener("input", () => {
    const same = userBox.value.trim() === own.user;
    if (!same && workdirBox.value === own.home) workdirBox.value = ""; else if (same && !workdirBox.value) workdirBox.value = own.home;
    document.getElementById("environment").hidden = !same;
  });
}
for (const id of ["user", "workdir"]) document.getElementById(id).addEventListener("input", () => changed(true));
(async () => {
  seen.schema = await call("GET", "/v1/schema/job");
  draw();
  changed();
  await listOpenJobs();
})();
