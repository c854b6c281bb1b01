// Keeps an open page current: hears of changes by one stream for all tabs of the browser, asks for the page again when
// one concerns it, and swaps the parts marked data-live. Without it the page is whole, as of when it was asked for.
"use strict";
const main = () => document.getElementById("main");
const link = document.getElementById("link");
const word = document.getElementById("link-word");
const updated = document.getElementById("updated");
// Readings of GPUs change without an event.
const AT_LEAST_EVERY = 2000;
// The server's clock, which goes at another pace where a simulation is shown.
let clock = { shown: 0, at: 0, pace: 1 };
const setClock = (from) => { clock = { shown: Number(from.dataset.now), at: Date.now(), pace: Number(from.dataset.pace) }; };
const shownNow = () => clock.shown + (Date.now() - clock.at) * clock.pace;
setClock(main());
let lastUpdate = Date.now(), lastAnswer = lastUpdate, asking = false, again = false, timer = 0, took = 0;
let seq = Number(main().dataset.seq), wanted = seq;

const span = (millis) => {
  // Rounded as `warpyard_api::quantity::span` does.
  const rounded = (unit) => Math.round(Math.max(0, millis) / unit);
  const two = (n) => String(n).padStart(2, "0");
  const tenths = rounded(100), s = rounded(1000), m = rounded(60000), h = rounded(3600000);
  if (tenths > 0 && tenths < 10) return `0.${tenths}s`;
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  if (m < 1440) return `${Math.floor(m / 60)}h ${two(m % 60)}m`;
  return `${Math.floor(h / 24)}d ${two(h % 24)}h`;
};
const tick = () => {
  for (const t of document.querySelectorAll("time[data-since]")) {
    const said = span(shownNow() - Number(t.dataset.since));
    if (t.textContent !== said) t.textContent = said;
  }
  for (const t of document.querySelectorAll("time[data-until]")) {
    const said = span(Number(t.dataset.until) - shownNow());
    if (t.textContent !== said) t.textContent = said;
  }
  updated.textContent = `updated ${span(Math.floor((Date.now() - lastUpdate) / 1000) * 1000)} ago`;
  updated.title = new Date(lastUpdate).toLocaleString();
};
const showSimulation = () => {
  const t = document.querySelector("[data-clock]");
  if (!t) return;
  const s = Math.max(0, Math.floor((shownNow() - Number(t.dataset.clock)) / 1000)), days = Math.floor(s / 86400);
  const said = (days ? `${days}d ` : "") + [Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60, s % 60].map((n) => String(n).padStart(2, "0")).join(":");
  if (t.textContent !== said) t.textContent = said;
  t.title = new Date(shownNow()).toLocaleString();
};
const localTimes = () => {
  for (const t of document.querySelectorAll("main time[datetime]")) {
    const at = new Date(t.getAttribute("datetime"));
    if (isNaN(at)) continue;
    t.title = at.toLocaleString();
    if (t.dataset.date !== undefined) t.textContent = at.toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  }
};
const say = (state, text) => {
  if (link.dataset.state === state) return;
  link.dataset.state = state;
  word.textContent = text;
};

// Whoever writes in a part, or has a menu of it open, keeps it as it is for now.
const busy = (part) => {
  const focused = document.activeElement;
  return part.contains(focused) && focused.matches("input:not([type=checkbox]), textarea, select");
};
// A part that was not there before goes behind the one it stands behind.
const putIn = (part) => {
  let before = part.previousElementSibling;
  while (before && !before.dataset.live) before = before.previousElementSibling;
  const here = before && document.querySelector(`[data-live="${before.dataset.live}"]`);
  if (here) here.after(document.importNode(part, true)); else main().prepend(document.importNode(part, true));
};
// A click is a press and a release on the same thing: between the two, nothing is drawn anew.
let released = null, letGo = () => {};
document.addEventListener("pointerdown", () => { released ||= new Promise((done) => { letGo = done; }); }, true);
for (const end of ["pointerup", "pointercancel", "blur"]) {
  window.addEventListener(end, () => setTimeout(() => { letGo(); released = null; }, 0), true);
}
const swap = (fresh) => {
  const focused = document.activeElement;
  const mark = focused && focused.getAttribute && (focused.getAttribute("href") || focused.dataset.focus || focused.value);
  for (const part of fresh.querySelectorAll("[data-live]")) {
    const old = document.querySelector(`[data-live="${part.dataset.live}"]`);
    if (!old) { putIn(part); continue; }
    if (part.dataset.key !== undefined && part.dataset.key === old.dataset.key) continue;
    if (busy(old)) continue;
    const scrolled = [...old.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
    const inside = old.contains(focused);
    old.replaceWith(document.importNode(part, true));
    const now = document.querySelector(`[data-live="${part.dataset.live}"]`);
    now.querySelectorAll(".scroll").forEach((box, i) => { box.scrollLeft = scrolled[i] || 0; });
    if (inside && mark) for (const one of now.querySelectorAll("a[href], button, input, [data-focus]")) {
      if ([one.getAttribute("href"), one.dataset.focus, one.value].includes(mark)) { one.focus({ preventScroll: true }); break; }
    }
  }
  for (const old of document.querySelectorAll("[data-live]")) {
    if (!fresh.querySelector(`[data-live="${old.dataset.live}"]`)) old.remove();
  }
  localTimes();
  tick();
  document.dispatchEvent(new Event("warpyard:swapped"));
};
const refresh = async () => {
  if (asking) { again = true; return; }
  asking = true;
  const began = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { "x-warpyard-part": String(wanted) }, cache: "no-store" });
    if (answer.status === 401) return location.reload();
    if (answer.ok) {
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
      if (released) await released;
      setClock(fresh);
      lastUpdate = Date.now();
      seq = Math.max(seq, Number(fresh.dataset.seq));
      swap(fresh);
    }
  } catch { /* the stream says when the server is gone */ }
  lastAnswer = Date.now();
  took = lastAnswer - began;
  asking = false;
  if (again) { again = false; soon(); }
};
// The first change is shown at once; of many in a row as many as leave the browser and the server most of their time.
const soon = () => {
  if (timer || document.hidden) return;
  const rest = Math.min(500, Math.max(60, 6 * took));
  timer = setTimeout(() => { timer = 0; refresh(); }, Math.max(0, rest - (Date.now() - lastAnswer)));
};
window.warpyardRefresh = () => { clearTimeout(timer); timer = 0; refresh(); };
const concerns = (notice) => {
  const job = main().dataset.job;
  return !main().dataset.still && (!job || notice.all || notice.jobs.includes(job));
};

// One stream for all tabs: one of them listens and tells the others; when it goes, the next one takes over.
const channel = new BroadcastChannel("warpyard");
const heard = (message) => {
  if (message.state === "on") say("on", "connected");
  if (message.state === "off") say("off", "disconnected, reconnecting");
  if (message.seq === undefined) return;
  wanted = Math.max(wanted, Number(message.seq));
  if (message.reset || concerns(message.notice)) soon();
};
const tell = (message) => { heard(message); channel.postMessage(message); };
channel.onmessage = (event) => {
  if (event.data.hello) { if (stream) channel.postMessage({ state: stream.readyState === EventSource.OPEN ? "on" : "off" }); } else heard(event.data);
};
let stream = null;
const listen = () => new Promise((gone) => {
  stream = new EventSource(`/v1/events?after=${seq}`);
  stream.onopen = () => tell({ state: "on" });
  stream.onerror = () => {
    tell({ state: "off" });
    if (stream.readyState !== EventSource.CLOSED) return;
    stream = null;
    setTimeout(gone, 2000);
  };
  stream.onmessage = (event) => tell({ seq: event.lastEventId, notice: JSON.parse(event.data) });
  stream.addEventListener("reset", (event) => tell({ seq: event.lastEventId, reset: true }));
});
const lead = async (still) => { while (still()) { await listen(); await refresh(); } };
// Browsers lend locks to pages that came encrypted or from their own machine. Elsewhere the tab that leads says every
// second that it still does, where the others can read it; who was silent for three has gone, or is put to sleep.
const unlikelyAgain = () => [...crypto.getRandomValues(new Uint32Array(4))].map((n) => n.toString(16).padStart(8, "0")).join("");
const takeTurns = () => {
  const me = unlikelyAgain(), place = "warpyard-stream";
  let leads = false, turn = 0;
  const leader = () => { try { return JSON.parse(localStorage.getItem(place)) || {}; } catch { return {}; } };
  const step = () => {
    const { id, at } = leader();
    if (id !== me && Date.now() - at < 3000) { if (leads) { leads = false; stream?.close(); stream = null; } return; }
    localStorage.setItem(place, JSON.stringify({ id: me, at: Date.now() }));
    // Two may have found it free at once: the last to write has it.
    if (!leads) setTimeout(() => { if (!leads && leader().id === me) { const mine = (turn += 1); leads = true; void lead(() => leads && turn === mine); } }, 50);
  };
  window.addEventListener("storage", (event) => { if (event.key === place) step(); });
  window.addEventListener("pagehide", () => { if (leads && leader().id === me) localStorage.removeItem(place); });
  setInterval(step, 1000);
  step();
};
if (navigator.locks) navigator.locks.request("warpyard-stream", () => lead(() => true)); else takeTurns();
channel.postMessage({ hello: true });
document.addEventListener("visibilitychange", () => { if (!document.hidden) soon(); });
setInterval(() => { if (link.dataset.state === "on" && !main().dataset.still && Date.now() - lastAnswer > AT_LEAST_EVERY) soon(); }, 1000);
setInterval(tick, 1000);
if (document.querySelector("[data-clock]")) setInterval(showSimulation, 100);
document.addEventListener("click", (event) => {
  const code = event.target.closest(".empty code");
  if (code && navigator.clipboard) navigator.clipboard.writeText(code.textContent);
});
localTimes();
tick();
