// Changes asked for from the pages: buttons marked data-act call the interface with the secret of this login, and say
// what became of it. What can be taken back is done at once and offered to be undone; what cannot is asked about first.
"use strict";
const csrf = document.querySelector("meta[name=csrf]")?.content || "";
const call = async (method, path, body) => {
  const headers = { "x-warpyard-csrf": csrf };
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch { throw { detail: "the server cannot be reached, so nothing was changed", problems: [] }; }
  if (answer.status === 401) { location.reload(); throw { detail: "log in again", problems: [] }; }
  const kind = answer.headers.get("content-type") || "";
  const said = kind.includes("json") ? await answer.json() : await answer.text();
  if (!answer.ok) throw said.detail ? said : { detail: String(said).slice(0, 300), problems: [] };
  return said;
};

const toast = (text, undo, wrong) => {
  const box = document.getElementById("toasts");
  const one = document.createElement("div");
  one.className = wrong ? "toast wrong" : "toast";
  one.setAttribute("role", wrong ? "alert" : "status");
  const words = document.createElement("span");
  words.textContent = text;
  one.append(words);
  const close = () => one.remove();
  if (undo) {
    const back = document.createElement("button");
    back.type = "button";
    back.textContent = "Undo";
    back.addEventListener("click", () => { close(); undo(); });
    one.append(back);
  }
  const shut = document.createElement("button");
  shut.type = "button";
  shut.className = "plain";
  shut.setAttribute("aria-label", "Close");
  shut.textContent = "✕";
  shut.addEventListener("click", close);
  one.append(shut);
  box.append(one);
  while (box.children.length > 4) box.firstChild.remove();
  setTimeout(close, wrong ? 20000 : 9000);
};
const sorry = (error) => toast(error.detail || String(error), null, true);

const ask = (question, yes) => new Promise((done) => {
  const dialog = document.getElementById("ask");
  dialog.querySelector("p").textContent = question;
  dialog.querySelector("[value=yes]").textContent = yes;
  dialog.returnValue = "";
  dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true });
  dialog.showModal();
});

const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
const named = (ids) => (ids.length === 1 ? `job ${ids[0]}` : plural(ids.length, "job"));
const jobs = (ids, verb, body) => call("POST", `/v1/jobs/${encodeURIComponent(ids.join(","))}/${verb}`, body);

// Each verb: what it does to these jobs, in words, and how it is taken back.
const verbs = {
  cancel: {
    question: (ids) => `Cancel ${named(ids)}? Running tasks are ended. You can run it again later.`,
    yes: (ids) => (ids.length === 1 ? "Cancel job" : `Cancel ${ids.length} jobs`), run: (ids) => jobs(ids, "cancel"), said: "cancelled",
  },
  retry: { run: (ids) => jobs(ids, "retry", { failed_only: true }), said: "queued again", },
  "retry-all": {
    question: (ids) => `Run every task of ${named(ids)} again, including those that succeeded?`,
    yes: () => "Run again", run: (ids) => jobs(ids, "retry", { failed_only: false }), said: "queued again",
  },
  hold: { run: (ids) => jobs(ids, "hold"), said: "held", undo: "release" },
  release: { run: (ids) => jobs(ids, "release"), said: "released", undo: "hold" },
  pause: { run: (ids) => jobs(ids, "pause"), said: "paused", undo: "resume" },
  resume: { run: (ids) => jobs(ids, "resume"), said: "resumed", undo: "pause" },
};
const doVerb = async (verb, ids) => {
  const known = verbs[verb];
  if (!ids.length || (known.question && !(await ask(known.question(ids), known.yes(ids))))) return false;
  try {
    const acted = await known.run(ids);
    toast(`${named(acted.jobs)} ${known.said}`, known.undo && (() => doVerb(known.undo, acted.jobs)));
    window.warpyardRefresh?.();
    return true;
  } catch (error) { sorry(error); return false; }
};
const setPriority = async (changes) => {
  const before = [];
  try {
    for (const [id, from, to] of changes) {
      await jobs([id], "priority", { priority: to });
      before.push([id, to, from]);
    }
    toast(`changed the priority of ${named(changes.map((c) => c[0]))}`, () => setPriority(before));
  } catch (error) { sorry(error); }
  window.warpyardRefresh?.();
};
const drain = async (worker, verb) => {
  try {
    await call("POST", `/v1/workers/${encodeURIComponent(worker)}/${verb}`);
    const back = verb === "drain" ? "resume" : "drain";
    toast(verb === "drain" ? `${worker} is draining: it starts no more tasks` : `${worker} accepts tasks again`, () => drain(worker, back));
    window.warpyardRefresh?.();
  } catch (error) { sorry(error); }
};

const simulate = async ({ paused, speed }) => {
  try {
    await call("PUT", "/v1/simulation", { paused: paused && paused === "true", speed: speed && Number(speed) });
    window.warpyardRefresh?.();
  } catch (error) { sorry(error); }
};

// Several rows at once. The choice outlives a row being drawn again.
const chosen = new Set();
const showChosen = () => {
  const bar = document.getElementById("bulk");
  if (!bar) return;
  const present = [...document.querySelectorAll("input[name=pick]")];
  for (const box of present) box.checked = chosen.has(box.value);
  const all = document.getElementById("pick-all");
  if (all) {
    all.checked = present.length > 0 && present.every((box) => box.checked);
    all.indeterminate = !all.checked && present.some((box) => box.checked);
  }
  bar.hidden = chosen.size === 0;
  document.getElementById("bulk-count").textContent = `${plural(chosen.size, "job")} selected`;
  for (const button of bar.querySelectorAll("button, input")) button.disabled = chosen.size === 0;
};
document.addEventListener("warpyard:swapped", showChosen);
document.addEventListener("change", (event) => {
  const box = event.target;
  if (box.name === "pick") { if (box.checked) chosen.add(box.value); else chosen.delete(box.value); showChosen(); }
  if (box.id === "pick-all") {
    for (const one of document.querySelectorAll("input[name=pick]")) {
      if (box.checked) chosen.add(one.value); else chosen.delete(one.value);
    }
    showChosen();
  }
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-act]");
  if (!button) return;
  const { act, job, worker } = button.dataset;
  const ids = job ? [job] : [...chosen];
  if (act === "drain" || act === "undrain") return void drain(worker, act === "drain" ? "drain" : "resume");
  if (act === "simulate") return void simulate(button.dataset);
  if (act === "clear") { chosen.clear(); return showChosen(); }
  if (act === "logout") return void call("POST", "/logout").then(() => location.assign("/"), sorry);
  if (verbs[act]) void doVerb(act, ids).then((done) => { if (done && !job) { chosen.clear(); showChosen(); } });
});
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.form !== "priority") return;
  event.preventDefault();
  const to = Number(form.elements.priority.value);
  if (!Number.isSafeInteger(to)) return sorry({ detail: "a priority is a whole number" });
  const from = (id) => Number(document.querySelector(`[data-priority-of="${id}"]`)?.dataset.priority ?? 0);
  const ids = form.dataset.job ? [form.dataset.job] : [...chosen];
  const changes = ids.map((id) => [id, form.dataset.job ? Number(form.dataset.priority) : from(id), to]);
  void setPriority(changes.filter(([, was]) => was !== to));
  if (document.activeElement) document.activeElement.blur();
});

// The heads of a table change the address and not the form beside it, so it is the address that knows the order.
document.addEventListener("formdata", (event) => {
  if (!event.target.matches("form.filter")) return;
  const sort = new URLSearchParams(location.search).get("sort");
  if (sort) event.formData.set("sort", sort); else event.formData.delete("sort");
});
// Search as you type: the address says what is shown, so that it can be kept and shared.
let typed = 0;
document.addEventListener("input", (event) => {
  const form = event.target.closest("form.filter");
  if (!form) return;
  clearTimeout(typed);
  typed = setTimeout(() => {
    const query = new URLSearchParams(new FormData(form));
    for (const [key, value] of [...query]) if (!value) query.delete(key);
    history.replaceState(null, "", `?${query}`);
    window.warpyardRefresh?.();
  }, 120);
});
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-part]");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, "", link.getAttribute("href"));
  window.warpyardRefresh?.();
});
window.addEventListener("popstate", () => window.warpyardRefresh?.());

// Columns shown or hidden: a class on the root, so that rows drawn anew follow; kept in this browser, for each page.
const columns = document.querySelector(".columns");
if (columns) {
  const place = `warpyard-columns-${columns.dataset.page}`;
  let kept = {};
  try { kept = JSON.parse(localStorage.getItem(place)) || {}; } catch { /* as by default */ }
  const boxes = [...columns.querySelectorAll("[name=column]")];
  const apply = () => {
    for (const box of boxes) {
      document.documentElement.classList.toggle(`show-${box.value}`, box.checked);
      document.documentElement.classList.toggle(`hide-${box.value}`, !box.checked);
    }
  };
  for (const box of boxes) box.checked = kept[box.value] ?? box.dataset.shown !== undefined;
  columns.addEventListener("change", () => {
    kept = Object.fromEntries(boxes.map((box) => [box.value, box.checked]));
    try { localStorage.setItem(place, JSON.stringify(kept)); } catch { /* it holds for this page only */ }
    apply();
  });
  apply();
}
// On a narrow screen the table comes first; its controls are one line until they are opened.
const controls = document.querySelector("details.controls");
if (controls && matchMedia("(max-width: 46rem)").matches) controls.open = false;

// Keys: / searches, j and k go through rows, x selects; every page says so at its foot.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  const rows = [...document.querySelectorAll("tbody th a")];
  const at = rows.indexOf(document.activeElement);
  if (event.key === "/") { const box = document.querySelector("input[type=search]"); if (box) { event.preventDefault(); if (controls) controls.open = true; box.focus(); } }
  if (event.key === "j" && rows.length) rows[Math.min(at + 1, rows.length - 1)].focus();
  if (event.key === "k" && rows.length) rows[Math.max(at - 1, 0)].focus();
  if (event.key === "x" && at >= 0) rows[at].closest("tr").querySelector("input[name=pick]")?.click();
  if (event.key === "p") document.querySelector("[data-focus=sim-pause]")?.click();
  if (event.key === "n") location.assign("/new");
});
showChosen();
