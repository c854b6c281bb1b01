// Keeps an open page current: requests it again and swaps the parts marked data-live. Without this script a page is
// complete, as of when it was loaded.
import { countDurations, localiseDates, setClock } from "./clock.js";

export const main = () => document.getElementById("main");

// The last event the page shows, and the last one heard of: the server answers with a page at least that recent.
let shownSeq = Number(main().dataset.seq), wantedSeq = shownSeq;
let lastUpdate = Date.now(), lastResponse = lastUpdate, lastDuration = 0;
let inFlight = false, repeat = false, timer = 0;

export const currentSeq = () => shownSeq;
export const expectSeq = (seq) => { wantedSeq = Math.max(wantedSeq, Number(seq)); };
export const updatedAt = () => lastUpdate;
export const answeredAt = () => lastResponse;

// A part is left alone for now while its reader types in it or has a menu of it open.
const isBeingEdited = (part) => {
  const focused = document.activeElement;
  return part.contains(focused) && focused.matches("input:not([type=checkbox]), textarea, select");
};

const partNamed = (name) => document.querySelector(`[data-live="${name}"]`);

// Inserts a part that was not there before after the one it follows.
const insertPart = (part) => {
  let before = part.previousElementSibling;
  while (before && !before.dataset.live) before = before.previousElementSibling;
  const here = before && partNamed(before.dataset.live);
  if (here) here.after(document.importNode(part, true)); else main().prepend(document.importNode(part, true));
};

// What identifies the focused element after its part was replaced.
const focusKeys = (element) => [element.getAttribute?.("href"), element.dataset?.focus, element.value];
const restoreFocus = (part, key) => {
  for (const element of part.querySelectorAll("a[href], button, input, [data-focus]")) {
    if (focusKeys(element).includes(key)) { element.focus({ preventScroll: true }); return; }
  }
};

const replacePart = (old, part, focused) => {
  const scrolled = [...old.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
  const key = old.contains(focused) && focusKeys(focused).find(Boolean);
  old.replaceWith(document.importNode(part, true));
  const replaced = partNamed(part.dataset.live);
  replaced.querySelectorAll(".scroll").forEach((box, i) => { box.scrollLeft = scrolled[i] || 0; });
  if (key) restoreFocus(replaced, key);
};

const swapParts = (fresh) => {
  const focused = document.activeElement;
  for (const part of fresh.querySelectorAll("[data-live]")) {
    const old = partNamed(part.dataset.live);
    if (!old) { insertPart(part); continue; }
    const unchanged = part.dataset.key !== undefined && part.dataset.key === old.dataset.key;
    if (!unchanged && !isBeingEdited(old)) replacePart(old, part, focused);
  }
  for (const old of document.querySelectorAll("[data-live]")) {
    if (!fresh.querySelector(`[data-live="${old.dataset.live}"]`)) old.remove();
  }
  localiseDates();
  countDurations();
  document.dispatchEvent(new Event("warpyard:swapped"));
};

// A click is a press and a release on the same element: nothing is replaced between the two.
let released = null, release = () => {};
document.addEventListener("pointerdown", () => { released ||= new Promise((done) => { release = done; }); }, true);
for (const end of ["pointerup", "pointercancel", "blur"]) {
  window.addEventListener(end, () => setTimeout(() => { release(); released = null; }, 0), true);
}

const requestPage = async () => {
  const headers = { "x-warpyard-part": String(wantedSeq) };
  const response = await fetch(location.href, { headers, cache: "no-store" });
  if (response.status === 401) return location.reload();
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("main");
  if (released) await released;
  setClock(fresh);
  lastUpdate = Date.now();
  shownSeq = Math.max(shownSeq, Number(fresh.dataset.seq));
  swapParts(fresh);
};

export const refresh = async () => {
  if (inFlight) { repeat = true; return; }
  inFlight = true;
  const began = Date.now();
  try { await requestPage(); } catch { /* the event stream reports when the server is gone */ }
  lastResponse = Date.now();
  lastDuration = lastResponse - began;
  inFlight = false;
  if (repeat) { repeat = false; refreshSoon(); }
};

// Shows the first change at once, and of many in a row only as many as leave browser and server most of their time.
export const refreshSoon = () => {
  if (timer || document.hidden) return;
  const pause = Math.min(500, Math.max(60, 6 * lastDuration));
  timer = setTimeout(() => { timer = 0; refresh(); }, Math.max(0, pause - (Date.now() - lastResponse)));
};

export const refreshNow = () => { clearTimeout(timer); timer = 0; refresh(); };
