// The What if page: starts a replay, follows its progress and draws its results as bars beside what really happened.
import { call } from "./api.js";
import { notifyError } from "./dialogs.js";
import { el, svg } from "./dom.js";
import { formatSpan } from "./format.js";

const byId = (id) => document.getElementById(id);
const formatSeconds = (s) => (s >= 100 ? formatSpan(s * 1000) : `${s.toFixed(s >= 10 ? 1 : 2)} s`);

// Each chart: its title, the value of a result, how it is written, and which direction is better.
const METRICS = [
  ["Mean wait", (r) => r.wait_seconds.average, formatSeconds, "lower is better"],
  ["95th percentile wait", (r) => r.wait_seconds.p95, formatSeconds, "lower is better"],
  // Jobs still waiting at the end make the longest wait a lower bound.
  ["Longest wait", (r) => r.wait_seconds.max, (v, r) => (r.still_waiting ? `≥ ${formatSeconds(v)}` : formatSeconds(v)), "lower is better"],
  ["Mean turnaround, submission to end", (r) => r.completion_seconds.average, formatSeconds, "lower is better"],
  ["Makespan, until the last job ended", (r) => r.makespan_seconds, formatSeconds, "lower is better"],
  ["Tasks on each GPU, mean", (r) => r.utilisation, (v) => v.toFixed(2), "higher is better"],
];
const KINDS = { recorded: "recorded", "as-it-ran": "recorded policy, simulated" };

// What was replayed, and what of it does not count.
const describeInput = (input, results) => {
  const notes = [];
  const waiting = Math.max(0, ...results.map((r) => r.still_waiting));
  if (input.unfinished) {
    notes.push(`${input.unfinished} had not ended and ${input.unfinished === 1 ? "is" : "are"} counted only in the waits`);
  }
  if (waiting) notes.push(`${waiting} had not started: their waits until then count, as lower bounds (≥)`);
  if (input.there_before) notes.push(`${input.there_before} were submitted before and are not counted`);
  if (input.unknown) notes.push(`${input.unknown} attempts belong to jobs the log no longer describes and are left out`);
  if (input.policy_changes.length) notes.push(`the policy was changed to ${input.policy_changes.slice(-3).join(", then ")}`);
  const [from, to] = [input.from, input.to].map((at) => new Date(at).toLocaleString());
  return `${[`${input.jobs} jobs from ${from} to ${to}`, ...notes].join("; ")}.`;
};

const describeAgreement = (a) => {
  const error = `${formatSeconds(a.mean_error_seconds)} off on average (at most ${formatSeconds(a.max_error_seconds)})`;
  const missing = a.missing ? `; ${a.missing} do not start` : "";
  return `Accuracy: in the simulation of the policy that ran, ${a.same_place} of ${a.starts} tasks start in the same position, `
    + `${error}${missing}.`;
};

const bar = (kind, share) => svg("svg", { class: "meter wide", "aria-hidden": "true" },
  svg("rect", { class: "back", width: "100%", height: "100%" }),
  svg("rect", { class: `fill ${kind}`, width: `${share}%`, height: "100%" }));

const resultRow = (result, value, text, largest) => el("tr", {},
  el("th", { scope: "row", class: result.kind === "policy" ? undefined : "quiet" }, KINDS[result.kind] ?? result.policy),
  el("td", { class: "grow" }, bar(result.kind, (value / largest) * 100)),
  el("td", { class: "n" }, text));

const metricCard = (results, [title, valueOf, format, better]) => {
  const largest = Math.max(...results.map(valueOf), 1e-9);
  const rows = results.map((r) => resultRow(r, valueOf(r), format(valueOf(r), r), largest));
  return el("li", { class: "card bars" }, el("h3", {}, title), el("p", { class: "quiet small" }, better),
    el("table", { class: "tight" }, el("tbody", {}, ...rows)));
};

const drawReplay = (replay) => {
  byId("replay-none").hidden = true;
  byId("replay-progress").hidden = replay.state !== "running";
  byId("replay-doing").textContent = `${replay.doing}, ${Math.round(replay.progress * 100)} %`;
  byId("replay-bar").value = replay.progress;
  byId("replay-results").hidden = !replay.results.length;
  if (replay.told) byId("replay-told").textContent = describeInput(replay.told, replay.results);
  const simulated = replay.results.find((r) => r.agreement);
  byId("replay-trust").hidden = !simulated;
  if (simulated) byId("replay-trust").textContent = describeAgreement(simulated.agreement);
  byId("replay-charts").replaceChildren(...METRICS.map((metric) => metricCard(replay.results, metric)));
};

const showError = (text) => {
  byId("replay-wrong").textContent = text;
  byId("replay-wrong").hidden = !text;
};

const followReplay = async (id) => {
  for (;;) {
    const replay = await call("GET", `/v1/replays/${id}`);
    drawReplay(replay);
    if (replay.state === "failed") return showError(replay.why);
    if (replay.state === "done") return;
    await new Promise((done) => setTimeout(done, 250));
  }
};

document.addEventListener("click", (event) => {
  const pick = event.target.closest("[data-pick]")?.dataset.pick;
  if (!pick) return;
  for (const box of document.querySelectorAll("[name=policy]")) {
    box.checked = pick === "suggested" && box.dataset.suggested !== undefined;
  }
});
byId("replay").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target, button = form.querySelector("button");
  const written = byId("own").value.split("\n").map((line) => line.trim()).filter(Boolean);
  const picked = [...form.querySelectorAll("[name=policy]:checked")].map((box) => box.value);
  showError("");
  button.disabled = true;
  try {
    const request = { policies: [...picked, ...written], back: form.elements.back.value || undefined };
    const started = await call("POST", "/v1/replays", request);
    await followReplay(started.id);
  } catch (error) { showError(error.detail || String(error)); }
  button.disabled = false;
});

// The latest replay is shown again when the page is opened.
call("GET", "/v1/replays")
  .then(([latest]) => { if (latest && latest.state !== "failed") return followReplay(latest.id); })
  .catch(notifyError);
