// Changes requested from the pages: buttons marked data-act and the priority form. What can be reversed happens at once
// and offers to be undone; what cannot is confirmed first.
import { call } from "./api.js";
import { confirm, notify, notifyError } from "./dialogs.js";
import { plural } from "./format.js";
import { refreshNow } from "./refresh.js";
import { clearSelection, selectedJobs } from "./selection.js";

const nameJobs = (ids) => (ids.length === 1 ? `job ${ids[0]}` : plural(ids.length, "job"));
const changeJobs = (ids, action, body) => call("POST", `/v1/jobs/${encodeURIComponent(ids.join(","))}/${action}`, body);

// Each action on jobs: its request, the word for what it did, and either the action that undoes it or the question
// that is asked first.
const ACTIONS = {
  cancel: {
    question: (ids) => `Cancel ${nameJobs(ids)}? Running tasks are ended. You can run ${ids.length === 1 ? "it" : "them"} again later.`,
    yes: (ids) => (ids.length === 1 ? "Cancel job" : `Cancel ${ids.length} jobs`),
    run: (ids) => changeJobs(ids, "cancel"),
    done: "cancelled",
  },
  retry: { run: (ids) => changeJobs(ids, "retry", { failed_only: true }), done: "queued again" },
  "retry-all": {
    question: (ids) => `Run every task of ${nameJobs(ids)} again, including those that succeeded?`,
    yes: () => "Run again",
    run: (ids) => changeJobs(ids, "retry", { failed_only: false }),
    done: "queued again",
  },
  hold: { run: (ids) => changeJobs(ids, "hold"), done: "held", undo: "release" },
  release: { run: (ids) => changeJobs(ids, "release"), done: "released", undo: "hold" },
  pause: { run: (ids) => changeJobs(ids, "pause"), done: "paused", undo: "resume" },
  resume: { run: (ids) => changeJobs(ids, "resume"), done: "resumed", undo: "pause" },
};

const runAction = async (name, ids) => {
  const action = ACTIONS[name];
  if (!ids.length || (action.question && !(await confirm(action.question(ids), action.yes(ids))))) return false;
  try {
    const { jobs } = await action.run(ids);
    notify(`${nameJobs(jobs)} ${action.done}`, action.undo && (() => runAction(action.undo, jobs)));
    refreshNow();
    return true;
  } catch (error) {
    notifyError(error);
    return false;
  }
};

// Each change is a job, its priority before and its priority after.
const setPriorities = async (changes) => {
  const reversed = [];
  try {
    for (const [id, from, to] of changes) {
      await changeJobs([id], "priority", { priority: to });
      reversed.push([id, to, from]);
    }
    notify(`changed the priority of ${nameJobs(changes.map(([id]) => id))}`, () => setPriorities(reversed));
  } catch (error) { notifyError(error); }
  refreshNow();
};

const setDraining = async (worker, draining) => {
  try {
    await call("POST", `/v1/workers/${encodeURIComponent(worker)}/${draining ? "drain" : "resume"}`);
    const done = draining ? "is draining: it starts no more tasks" : "accepts tasks again";
    notify(`${worker} ${done}`, () => setDraining(worker, !draining));
    refreshNow();
  } catch (error) { notifyError(error); }
};

const controlSimulation = async ({ paused, speed }) => {
  try {
    await call("PUT", "/v1/simulation", { paused: paused && paused === "true", speed: speed && Number(speed) });
    refreshNow();
  } catch (error) { notifyError(error); }
};

const BUTTONS = {
  drain: ({ worker }) => setDraining(worker, true),
  undrain: ({ worker }) => setDraining(worker, false),
  simulate: controlSimulation,
  clear: clearSelection,
  logout: () => call("POST", "/logout").then(() => location.assign("/"), notifyError),
};

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-act]");
  if (!button) return;
  const { act, job } = button.dataset;
  if (BUTTONS[act]) return void BUTTONS[act](button.dataset);
  const done = await runAction(act, job ? [job] : selectedJobs());
  if (done && !job) clearSelection();
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.form !== "priority") return;
  event.preventDefault();
  const to = Number(form.elements.priority.value);
  if (!Number.isSafeInteger(to)) return notifyError({ detail: "a priority is a whole number" });
  const { job, priority } = form.dataset;
  const inTable = (id) => Number(document.querySelector(`[data-priority-of="${id}"]`)?.dataset.priority ?? 0);
  const changes = job ? [[job, Number(priority), to]] : selectedJobs().map((id) => [id, inTable(id), to]);
  void setPriorities(changes.filter(([, from]) => from !== to));
  document.activeElement?.blur();
});
