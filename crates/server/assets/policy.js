// Policies: opening one previews the order it would put the queue in; its button puts it in force, and that can be undone.
"use strict";
const chosenPolicy = (form) => {
  const params = {};
  for (const input of form.querySelectorAll("[name]")) {
    const value = input.value.trim();
    if (value === "" || value === input.dataset.default) continue;
    params[input.name] = isFinite(Number(value)) ? Number(value) : value;
  }
  return { name: form.dataset.policy, params };
};
const wrongParam = (form, error) => {
  for (const old of form.querySelectorAll(".wrong-word")) { old.hidden = true; old.textContent = ""; }
  if (!error) return;
  const path = error.problems?.[0]?.path || "", input = form.querySelector(`[name="${CSS.escape(path.split(".").pop())}"]`);
  if (!input) return sorry(error);
  const say = input.closest(".field").querySelector(".wrong-word");
  say.textContent = error.problems[0].message;
  say.hidden = false;
};
const node = (tag, words, kind) => { const one = document.createElement(tag); one.textContent = words; if (kind) one.className = kind; return one; };
const labelled = (cell, label) => { cell.dataset.label = label; return cell; };
const showOrder = async (form) => {
  const box = form.querySelector(".order");
  box.setAttribute("aria-busy", "true");
  try {
    const { order, policy: name } = await call("POST", "/v1/policy/preview", chosenPolicy(form));
    wrongParam(form);
    const title = node("p", "The queue under ");
    title.append(node("code", name), ":");
    if (!order.length) return box.replaceChildren(node("p", "The queue is empty, so there is no order to change.", "quiet"));
    const table = document.createElement("table");
    table.className = "line tight";
    const head = table.createTHead().insertRow();
    for (const [words, kind] of [["then", "n"], ["now", "n"], ["job"], ["user"], [""]]) { const th = node("th", words, kind); th.scope = "col"; head.append(th); }
    const body = table.createTBody();
    for (const one of order) {
      const row = body.insertRow(), moved = one.before && one.after ? one.before - one.after : 0;
      row.append(labelled(node("td", one.after ?? "–", "n"), "then"), labelled(node("td", one.before ?? "–", "n"), "now"));
      const th = node("th", "");
      th.scope = "row";
      th.append(node("b", one.name), " ", node("span", one.task, "num"));
      const word = one.starts_now ? "starts immediately" : moved > 0 ? `↑ ${moved} up` : moved < 0 ? `↓ ${-moved} down` : "stays";
      row.append(th, labelled(node("td", one.user), "user"), node("td", word, moved > 0 || one.starts_now ? "badge succeeded" : moved < 0 ? "badge paused" : "quiet"));
    }
    box.replaceChildren(title, table);
  } catch (error) { wrongParam(form, error); } finally { box.removeAttribute("aria-busy"); }
};
const inWords = ({ name, params }) => [name, Object.entries(params).map(([key, value]) => `${key}=${value}`).join(",")].filter(Boolean).join(":");
const putInForce = async (policy, undone) => {
  const all = await call("GET", "/v1/policies"), was = all.find((p) => p.active);
  await call("PUT", "/v1/policy", policy);
  const before = { name: was.name, params: Object.fromEntries(was.params.filter((p) => p.value !== undefined).map((p) => [p.name, p.value])) };
  sessionStorage.setItem("warpyard-policy", JSON.stringify({ now: inWords(policy), before, undone }));
  location.reload();
};
document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-policy]");
  if (!form) return;
  event.preventDefault();
  putInForce(chosenPolicy(form), false).catch((error) => wrongParam(form, error));
});
document.addEventListener("toggle", (event) => {
  if (event.target.matches?.("details.policy[open]")) void showOrder(event.target.querySelector("form"));
}, true);
document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-policy]");
  if (!form) return;
  clearTimeout(showOrder.timer);
  showOrder.timer = setTimeout(() => showOrder(form), 250);
});
const changedTo = JSON.parse(sessionStorage.getItem("warpyard-policy"));
if (changedTo) {
  sessionStorage.removeItem("warpyard-policy");
  const { now, before, undone } = changedTo;
  if (undone) toast(`policy is ${now} again`);
  else toast(`policy is now ${now}; it was ${inWords(before)}`, () => putInForce(before, true).catch(sorry));
}
