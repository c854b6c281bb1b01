// Policies tried before they are put in force: who would stand where, and what would start at once.
"use strict";
const chosenPolicy = (form) => {
  const params = {};
  for (const input of form.querySelectorAll("[name]")) {
    const value = input.value.trim();
    if (value === "" || value === input.dataset.default) continue;
    params[input.name] = value !== "" && isFinite(Number(value)) ? Number(value) : value;
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
  input.closest("details").open = true;
};
const node = (tag, words, kind) => { const one = document.createElement(tag); one.textContent = words; if (kind) one.className = kind; return one; };
const labelled = (cell, label) => { cell.dataset.label = label; return cell; };
// On a narrow screen the new order stands below all policies.
const bringIntoSight = (box) => { if (box.getBoundingClientRect().top > innerHeight - 100) box.scrollIntoView({ block: "start" }); };
const showOrder = async (form) => {
  const box = document.getElementById("order"), policy = chosenPolicy(form);
  box.setAttribute("aria-busy", "true");
  try {
    const { order, policy: name } = await call("POST", "/v1/policy/preview", policy);
    wrongParam(form);
    bringIntoSight(box.closest("section"));
    const title = node("p", "under ");
    title.append(node("code", name));
    if (!order.length) return box.replaceChildren(title, node("p", "Nobody waits now, so there is no order to change.", "quiet"));
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
      const word = one.starts_now ? "starts at once" : moved > 0 ? `↑ ${moved} up` : moved < 0 ? `↓ ${-moved} down` : "stays";
      row.append(th, labelled(node("td", one.user), "user"), node("td", word, moved > 0 || one.starts_now ? "badge succeeded" : moved < 0 ? "badge paused" : "quiet"));
    }
    box.replaceChildren(title, table);
  } catch (error) { wrongParam(form, error); } finally { box.removeAttribute("aria-busy"); }
};
const putInForce = async (policy, undo) => {
  const all = await call("GET", "/v1/policies"), was = all.find((p) => p.active);
  await call("PUT", "/v1/policy", policy);
  const before = { name: was.name, params: Object.fromEntries(was.params.filter((p) => p.value !== undefined).map((p) => [p.name, p.value])) };
  if (undo) sessionStorage.setItem("warpyard-undo-policy", JSON.stringify(before));
  location.reload();
};
document.addEventListener("submit", (event) => {
  const form = event.target.closest("form.policy");
  if (!form) return;
  event.preventDefault();
  putInForce(chosenPolicy(form), true).catch((error) => wrongParam(form, error));
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-preview]");
  if (button) void showOrder(button.closest("form"));
});
document.addEventListener("input", (event) => {
  const form = event.target.closest("form.policy");
  if (!form) return;
  clearTimeout(showOrder.timer);
  showOrder.timer = setTimeout(() => showOrder(form), 250);
});
const undone = sessionStorage.getItem("warpyard-undo-policy");
if (undone) {
  sessionStorage.removeItem("warpyard-undo-policy");
  toast("another policy is in force", () => putInForce(JSON.parse(undone), false).catch(sorry));
}
