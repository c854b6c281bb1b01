// The Policies page: opening a policy previews the order of the queue under it; its button switches to it, which can be
// undone.
import { call } from "./api.js";
import { notify, notifyError } from "./dialogs.js";
import { el } from "./dom.js";

// Carries the message about a switch over the reload that shows its effect.
const SWITCHED = "warpyard-policy";

// The policy of a form, with the parameters that differ from their defaults.
const policyOf = (form) => {
  const params = {};
  for (const input of form.querySelectorAll("[name]")) {
    const value = input.value.trim();
    if (value === "" || value === input.dataset.default) continue;
    params[input.name] = isFinite(Number(value)) ? Number(value) : value;
  }
  return { name: form.dataset.policy, params };
};
const formatPolicy = ({ name, params }) => {
  const list = Object.entries(params).map(([key, value]) => `${key}=${value}`).join(",");
  return [name, list].filter(Boolean).join(":");
};

const showError = (form, error) => {
  for (const old of form.querySelectorAll(".wrong-word")) { old.hidden = true; old.textContent = ""; }
  if (!error) return;
  const path = error.problems?.[0]?.path || "";
  const input = form.querySelector(`[name="${CSS.escape(path.split(".").pop())}"]`);
  if (!input) return notifyError(error);
  const message = input.closest(".field").querySelector(".wrong-word");
  message.textContent = error.problems[0].message;
  message.hidden = false;
};

const moveOf = ({ before, after, starts_now }) => {
  const up = before && after ? before - after : 0;
  if (starts_now) return ["starts immediately", "badge succeeded"];
  if (up > 0) return [`↑ ${up} up`, "badge succeeded"];
  return up < 0 ? [`↓ ${-up} down`, "badge paused"] : ["stays", "quiet"];
};
const orderRow = (task) => {
  const [move, className] = moveOf(task);
  return el("tr", {},
    el("td", { class: "n", "data-label": "then" }, String(task.after ?? "–")),
    el("td", { class: "n", "data-label": "now" }, String(task.before ?? "–")),
    el("th", { scope: "row" }, el("b", {}, task.name), " ", el("span", { class: "num" }, task.task)),
    el("td", { "data-label": "user" }, task.user),
    el("td", { class: className }, move));
};
const orderTable = (order) => {
  const heads = [["then", "n"], ["now", "n"], ["job"], ["user"], [""]];
  const head = el("tr", {}, ...heads.map(([text, className]) => el("th", { scope: "col", class: className }, text)));
  return el("table", { class: "line tight" }, el("thead", {}, head), el("tbody", {}, ...order.map(orderRow)));
};

const previewOrder = async (form) => {
  const box = form.querySelector(".order");
  box.setAttribute("aria-busy", "true");
  try {
    const { order, policy } = await call("POST", "/v1/policy/preview", policyOf(form));
    showError(form);
    if (order.length) box.replaceChildren(el("p", {}, "The queue under ", el("code", {}, policy), ":"), orderTable(order));
    else box.replaceChildren(el("p", { class: "quiet" }, "The queue is empty, so there is no order to change."));
  } catch (error) { showError(form, error); } finally { box.removeAttribute("aria-busy"); }
};

const switchTo = async (policy, undone) => {
  const all = await call("GET", "/v1/policies"), active = all.find((one) => one.active);
  await call("PUT", "/v1/policy", policy);
  const set = active.params.filter((param) => param.value !== undefined).map(({ name, value }) => [name, value]);
  const before = { name: active.name, params: Object.fromEntries(set) };
  sessionStorage.setItem(SWITCHED, JSON.stringify({ now: formatPolicy(policy), before, undone }));
  location.reload();
};
const reportSwitch = () => {
  const stored = JSON.parse(sessionStorage.getItem(SWITCHED));
  if (!stored) return;
  sessionStorage.removeItem(SWITCHED);
  const { now, before, undone } = stored;
  if (undone) notify(`policy is ${now} again`);
  else notify(`policy is now ${now}; it was ${formatPolicy(before)}`, () => switchTo(before, true).catch(notifyError));
};

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-policy]");
  if (!form) return;
  event.preventDefault();
  switchTo(policyOf(form), false).catch((error) => showError(form, error));
});
document.addEventListener("toggle", (event) => {
  if (event.target.matches?.("details.policy[open]")) void previewOrder(event.target.querySelector("form"));
}, true);
let typing = 0;
document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-policy]");
  if (!form) return;
  clearTimeout(typing);
  typing = setTimeout(() => previewOrder(form), 250);
});
reportSwitch();
