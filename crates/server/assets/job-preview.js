// The preview of a new job: its position in the queue and expected start were it submitted now, and what asking for less
// would change.
import { call, problemsOf } from "./api.js";
import { serverNow } from "./clock.js";
import { el } from "./dom.js";
import { formatStartRange } from "./format.js";
import { draft } from "./job-draft.js";
import { showProblems } from "./job-problems.js";

const box = document.getElementById("preview");
const button = document.getElementById("submit");

// The request that submits the draft, or previews it.
export const submitRequest = () => {
  const doc = structuredClone(draft.doc);
  if (!doc.name) delete doc.name;
  if (doc.tasks.length === 1 && !doc.tasks[0].name) delete doc.tasks[0].name;
  const [user, workdir] = ["user", "workdir"].map((id) => document.getElementById(id).value.trim() || undefined);
  return { doc, user, workdir, login_environment: true };
};

const formatStart = ({ expected_start: start, expected_start_reason: reason }) => {
  if (!start) return reason || "unknown";
  const [low, high] = [start.low, start.high].map((at) => Math.max(0, (Date.parse(at) - serverNow()) / 1000));
  const range = formatStartRange(low, high);
  return reason ? `${range} (${reason})` : range;
};
const formatPosition = ({ starts_now, position }) =>
  (starts_now ? "starts immediately" : position ? `position ${position} in the queue` : "waits");

const alternativeRow = (one) => {
  const start = one.starts_now ? "now" : one.expected_start ? formatStart(one) : "unknown";
  return el("tr", {}, el("th", { scope: "row" }, el("code", {}, one.change)),
    el("td", { class: "n" }, one.starts_now ? "–" : String(one.position ?? "–")), el("td", { class: "n" }, start));
};
const alternativesTable = (alternatives) => {
  if (!alternatives.length) return null;
  const head = el("tr", {}, el("th", { scope: "col" }, "if it asked for"), el("th", { scope: "col", class: "n" }, "position"),
    el("th", { scope: "col", class: "n" }, "start"));
  return el("table", { class: "line tight" }, el("thead", {}, head), el("tbody", {}, ...alternatives.map(alternativeRow)));
};
const drawPreview = (preview) => {
  const [mark, className] = preview.starts_now ? ["▶", "succeeded"] : ["◔", "ready"];
  const badge = el("span", { class: `badge ${className}` }, el("span", { "aria-hidden": "true" }, mark), ` ${formatPosition(preview)}`);
  const waits = preview.starts_now ? [] : [
    el("p", {}, el("span", { class: "quiet" }, "expected start "), el("b", {}, formatStart(preview))),
    el("p", { class: "quiet" }, preview.why.join("; ")),
  ];
  const parts = [el("p", { class: "big" }, badge), ...waits, alternativesTable(preview.alternatives)];
  box.replaceChildren(...parts.filter(Boolean));
};

// Replies that arrive after a newer request was made are dropped.
let latest = 0;

export const showNoPreview = (className, text) => {
  latest += 1;
  box.removeAttribute("aria-busy");
  box.replaceChildren(el("p", { class: className }, text));
  button.disabled = true;
};

export const updatePreview = async () => {
  if (!draft.doc.tasks.some((task) => String(task.command || "").trim())) {
    showProblems([]);
    return showNoPreview("quiet", "Enter a command to see when it would start.");
  }
  const mine = (latest += 1);
  box.setAttribute("aria-busy", "true");
  try {
    const preview = await call("POST", "/v1/jobs?dry_run=true", submitRequest());
    if (mine !== latest) return;
    box.removeAttribute("aria-busy");
    showProblems(preview.warnings ?? []);
    button.disabled = false;
    drawPreview(preview);
  } catch (error) {
    if (mine !== latest) return;
    showProblems(problemsOf(error));
    showNoPreview("wrong-word", "This job would be rejected; see the fields marked in red.");
  }
};
