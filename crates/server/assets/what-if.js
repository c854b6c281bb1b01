// Replays: started here, asked after until they are over, drawn as bars beside what really happened.
"use strict";
const part = (id) => document.getElementById(id);
const make = (tag, words, kind) => { const one = document.createElement(tag); if (words !== undefined) one.textContent = words; if (kind) one.className = kind; return one; };
const seconds = (s) => (s >= 100 ? span(s * 1000) : `${s.toFixed(s >= 10 ? 1 : 2)} s`);
const METRICS = [
  ["Mean wait", (r) => r.wait_seconds.average, seconds, "lower is better"],
  ["95th percentile wait", (r) => r.wait_seconds.p95, seconds, "lower is better"],
  ["Longest wait", (r) => r.wait_seconds.max, (v, r) => (r.still_waiting ? `≥ ${seconds(v)}` : seconds(v)), "lower is better"],
  ["Mean turnaround, submission to end", (r) => r.completion_seconds.average, seconds, "lower is better"],
  ["Makespan, until the last job ended", (r) => r.makespan_seconds, seconds, "lower is better"],
  ["Tasks on each GPU, mean", (r) => r.utilisation, (v) => v.toFixed(2), "higher is better"],
];
const drawResults = (view) => {
  part("replay-none").hidden = true;
  part("replay-progress").hidden = view.state !== "running";
  part("replay-doing").textContent = `${view.doing}, ${Math.round(view.progress * 100)} %`;
  part("replay-bar").value = view.progress;
  part("replay-results").hidden = !view.results.length;
  if (view.told) {
    const t = view.told, more = [];
    if (t.unfinished) more.push(`${t.unfinished} had not ended and ${t.unfinished === 1 ? "is" : "are"} counted only in the waits`);
    const waiting = Math.max(0, ...view.results.map((r) => r.still_waiting));
    if (waiting) more.push(`${waiting} had not started: their waits until then count, as lower bounds (≥)`);
    if (t.there_before) more.push(`${t.there_before} were submitted before and are not counted`);
    if (t.unknown) more.push(`${t.unknown} attempts belong to jobs the log no longer describes and are left out`);
    if (t.policy_changes.length) more.push(`the policy was changed to ${t.policy_changes.slice(-3).join(", then ")}`);
    part("replay-told").textContent = `${t.jobs} jobs from ${new Date(t.from).toLocaleString()} to ${new Date(t.to).toLocaleString()}${more.length ? `; ${more.join("; ")}` : ""}.`;
  }
  const same = view.results.find((r) => r.agreement), trust = part("replay-trust");
  trust.hidden = !same;
  if (same) {
    const a = same.agreement;
    trust.textContent = `Accuracy: in the simulation of the policy that ran, ${a.same_place} of ${a.starts} tasks start in the same position, ${seconds(a.mean_error_seconds)} off on average (at most ${seconds(a.max_error_seconds)})${a.missing ? `; ${a.missing} do not start` : ""}.`;
  }
  part("replay-charts").replaceChildren(...METRICS.map(([title, of, say, which]) => {
    const card = make("li", undefined, "card bars"), largest = Math.max(...view.results.map(of), 1e-9);
    card.append(make("h3", title), make("p", which, "quiet small"));
    const table = make("table", undefined, "tight");
    const body = table.createTBody();
    for (const result of view.results) {
      const row = body.insertRow(), name = make("th", { recorded: "recorded", "as-it-ran": "recorded policy, simulated" }[result.kind] ?? result.policy, result.kind === "policy" ? "" : "quiet");
      name.scope = "row";
      const bar = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      bar.setAttribute("class", "meter wide");
      bar.setAttribute("aria-hidden", "true");
      for (const [kind, share] of [["back", 100], [`fill ${result.kind}`, (of(result) / largest) * 100]]) {
        const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
        rect.setAttribute("class", kind);
        rect.setAttribute("width", `${share}%`);
        rect.setAttribute("height", "100%");
        bar.append(rect);
      }
      const cell = make("td", undefined, "grow");
      cell.append(bar);
      row.append(name, cell, make("td", say(of(result), result), "n"));
    }
    card.append(table);
    return card;
  }));
};
const watchReplay = async (id) => {
  for (;;) {
    const view = await call("GET", `/v1/replays/${id}`);
    drawResults(view);
    if (view.state === "failed") { const wrong = part("replay-wrong"); wrong.textContent = view.why; wrong.hidden = false; return; }
    if (view.state === "done") return;
    await new Promise((done) => setTimeout(done, 250));
  }
};
document.addEventListener("click", (event) => {
  const pick = event.target.closest("[data-pick]")?.dataset.pick;
  if (pick) for (const box of document.querySelectorAll("[name=policy]")) box.checked = pick === "suggested" && box.dataset.suggested !== undefined;
});
part("replay").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target, button = form.querySelector("button"), wrong = part("replay-wrong");
  const own = part("own").value.split("\n").map((l) => l.trim()).filter(Boolean);
  const policies = [...form.querySelectorAll("[name=policy]:checked")].map((box) => box.value).concat(own);
  wrong.hidden = true;
  button.disabled = true;
  try {
    const begun = await call("POST", "/v1/replays", { policies, back: form.elements.back.value || undefined });
    await watchReplay(begun.id);
  } catch (error) { wrong.textContent = error.detail || String(error); wrong.hidden = false; }
  button.disabled = false;
});
call("GET", "/v1/replays").then((all) => { if (all.length && all[0].state !== "failed") return watchReplay(all[0].id); }).catch(sorry);
