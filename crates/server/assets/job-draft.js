// The job document being written, and the dependencies in it. The form and the TOML are two views of this document.
const cloned = document.getElementById("cloned");

export const draft = { doc: cloned ? JSON.parse(cloned.dataset.doc) : { name: "", tasks: [{ name: "", command: "" }] } };

// Dependencies are written briefly where they can be: "prep" stands for { task: "prep", on: "ok" }.
const read = (owner, key) => [].concat(owner.after ?? []).map((one) =>
  (typeof one === "object" ? { on: "ok", ...one } : { [key]: String(one), on: "ok" }));
const write = (owner, key, list) => {
  if (list.length) owner.after = list.map((one) => (one.on === "ok" ? one[key] : { [key]: one[key], on: one.on }));
  else delete owner.after;
};

export const taskDependencies = (task) => read(task, "task");
export const setTaskDependencies = (task, list) => write(task, "task", list);
export const jobDependencies = () => read(draft.doc, "job");
export const setJobDependencies = (list) => write(draft.doc, "job", list);

// Appends a task that follows the last one. A single task needs no name; several are told apart by theirs.
export const addTask = () => {
  const { tasks } = draft.doc;
  if (!tasks[0].name) tasks[0].name = "task-1";
  const names = tasks.map((task) => task.name);
  let n = names.length + 1;
  while (names.includes(`task-${n}`)) n += 1;
  const last = names[names.length - 1];
  tasks.push({ name: `task-${n}`, command: "", ...(last ? { after: [last] } : {}) });
};

export const removeTask = (task) => {
  draft.doc.tasks = draft.doc.tasks.filter((other) => other !== task);
  for (const other of draft.doc.tasks) {
    setTaskDependencies(other, taskDependencies(other).filter((one) => one.task !== task.name));
  }
};

// Follows a task's new name in the dependencies of the others.
export const renameTask = (before, after) => {
  for (const other of draft.doc.tasks) {
    const list = taskDependencies(other);
    if (!list.some((one) => one.task === before)) continue;
    setTaskDependencies(other, list.map((one) => (one.task === before ? { ...one, task: after } : one)));
  }
};
