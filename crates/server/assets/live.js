// Keeps an open page current: hears of changes by one stream, asks for the page again when one concerns it, and swaps
// the parts marked data-live. Without it the page is whole, as of when it was asked for.
"use strict";
const main = () => document.getElementById("main");
const link = document.getElementById("link");
const word = document.getElementById("link-word");
const updated = document.getElementById("updated");
const AT_MOST_EVERY = 250, AT_LEAST_EVERY = 5000;
let ahead = Number(main().dataset.now) - Date.now();
let lastUpdate = Date.now(), asking = false, again = false, timer = 0;

const span = (millis) => {
  const s = Math.max(0, Math.floor(millis / 1000));
  const d = Math.floor(s / 86400), h = Math.floor(s / 3600) % 24, m = Math.floor(s / 60) % 60;
  const two = (n) => String(n).padStart(2, "0");
  if (d) return `${d}d ${two(h)}h`;
  if (h) return `${h}h ${two(m)}m`;
  return m ? `${m}m ${two(s % 60)}s` : `${s}s`;
};
const tick = () => {
  for (const t of document.querySelectorAll("time[data-since]")) {
    const said = span(Date.now() + ahead - Number(t.dataset.since));
    if (t.textContent !== said) t.textContent = said;
  }
  updated.textContent = `updated ${span(Date.now() - lastUpdate)} ago`;
  updated.title = new Date(lastUpdate).toLocaleString();
};
const localTimes = () => {
  for (const t of document.querySelectorAll("main time[datetime]")) {
    const at = new Date(t.getAttribute("datetime"));
    if (!isNaN(at)) t.title = at.toLocaleString();
  }
};
const say = (state, text) => {
  if (link.dataset.state === state) return;
  link.dataset.state = state;
  word.textContent = text;
};

const swap = (fresh) => {
  const focused = document.activeElement;
  const href = focused && focused.getAttribute && focused.getAttribute("href");
  for (const part of fresh.querySelectorAll("[data-live]")) {
    const old = document.querySelector(`[data-live="${part.dataset.live}"]`);
    if (!old) return location.reload();
    if (part.dataset.key !== undefined && part.dataset.key === old.dataset.key) continue;
    const scrolled = [...old.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
    const inside = old.contains(focused);
    old.replaceWith(document.importNode(part, true));
    const now = document.querySelector(`[data-live="${part.dataset.live}"]`);
    now.querySelectorAll(".scroll").forEach((box, i) => { box.scrollLeft = scrolled[i] || 0; });
    if (inside && href) for (const a of now.querySelectorAll("a[href]")) {
      if (a.getAttribute("href") === href) { a.focus({ preventScroll: true }); break; }
    }
  }
  for (const old of document.querySelectorAll("[data-live]")) {
    if (!fresh.querySelector(`[data-live="${old.dataset.live}"]`)) old.remove();
  }
  localTimes();
  tick();
};
const refresh = async () => {
  if (asking) { again = true; return; }
  asking = true;
  try {
    const answer = await fetch(location.href, { headers: { "x-warpyard-part": "1" }, cache: "no-store" });
    if (answer.status === 401) return location.reload();
    if (answer.ok) {
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
      ahead = Number(fresh.dataset.now) - Date.now();
      lastUpdate = Date.now();
      swap(fresh);
    }
  } catch { /* the stream says when the server is gone */ }
  asking = false;
  if (again) { again = false; soon(); }
};
const soon = () => {
  if (timer || document.hidden) return;
  timer = setTimeout(() => { timer = 0; refresh(); }, Math.max(0, AT_MOST_EVERY - (Date.now() - lastUpdate)));
};
const concerns = (notice) => {
  const job = main().dataset.job;
  return !job || notice.all || notice.jobs.includes(job);
};

// A hidden tab lets its stream go: a browser has few connections to one host, and nobody looks.
let stream = null, seq = main().dataset.seq;
const listen = () => {
  stream = new EventSource(`/v1/events?after=${seq}`);
  stream.onopen = () => say("on", "connected");
  stream.onerror = () => {
    say("off", "not connected, trying again");
    if (stream.readyState === EventSource.CLOSED) setTimeout(refresh, 3000);
  };
  stream.onmessage = (event) => {
    seq = event.lastEventId;
    if (concerns(JSON.parse(event.data))) soon();
  };
  stream.addEventListener("reset", (event) => { seq = event.lastEventId; soon(); });
};
document.addEventListener("visibilitychange", () => {
  if (document.hidden) stream.close();
  else if (stream.readyState === EventSource.CLOSED) { listen(); soon(); }
});
listen();
setInterval(() => { if (link.dataset.state === "on" && Date.now() - lastUpdate > AT_LEAST_EVERY) soon(); }, 1000);
setInterval(tick, 1000);

const follow = async () => {
  const log = document.getElementById("log");
  const box = document.getElementById("follow");
  if (log && box && box.checked && log.dataset.more && !document.hidden) {
    try {
      const answer = await fetch(log.dataset.more, { cache: "no-store" });
      const text = answer.ok ? await answer.text() : "";
      if (text) {
        log.append(text);
        if (log.textContent.length > 400000) log.textContent = log.textContent.slice(-200000);
        log.dataset.more = log.dataset.more.replace(/from=\d+$/, `from=${answer.headers.get("x-next")}`);
        document.getElementById("nothing-printed")?.remove();
        log.scrollTop = log.scrollHeight;
      }
    } catch { /* it is asked again */ }
  }
  setTimeout(follow, 1000);
};
document.addEventListener("change", (event) => {
  if (event.target.id === "wrap") document.getElementById("log").classList.toggle("wrap", event.target.checked);
});
document.addEventListener("click", (event) => {
  const code = event.target.closest(".empty code");
  if (code && navigator.clipboard) navigator.clipboard.writeText(code.textContent);
});
const log = document.getElementById("log");
if (log) log.scrollTop = log.scrollHeight;
follow();
localTimes();
tick();
