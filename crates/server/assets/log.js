// The log of the job page: goes on as it is printed, wraps, and is searched.
"use strict";
const logBox = () => document.getElementById("log");
let matches = [], at = -1;
const paint = () => {
  const log = logBox(), text = document.getElementById("log-search")?.value || "";
  const count = document.getElementById("log-count");
  if (!log || !count) return;
  const whole = log.textContent;
  matches = [];
  if (CSS.highlights) CSS.highlights.clear();
  if (!text) { count.textContent = ""; return; }
  const find = text.toLowerCase(), hay = whole.toLowerCase();
  log.normalize();
  const node = log.firstChild;
  for (let i = hay.indexOf(find); i >= 0 && matches.length < 1000 && node; i = hay.indexOf(find, i + find.length)) {
    const range = new Range();
    range.setStart(node, i);
    range.setEnd(node, i + text.length);
    matches.push(range);
  }
  if (CSS.highlights && matches.length) CSS.highlights.set("found", new Highlight(...matches));
  count.textContent = matches.length ? `${matches.length} found` : "not found";
};
const step = (by) => {
  if (!matches.length) return;
  at = (at + by + matches.length) % matches.length;
  const log = logBox(), place = matches[at].getBoundingClientRect(), frame = log.getBoundingClientRect();
  log.scrollTop += place.top - frame.top - frame.height / 2;
  if (CSS.highlights) CSS.highlights.set("found-here", new Highlight(matches[at]));
  document.getElementById("log-count").textContent = `${at + 1} of ${matches.length}`;
};
const follow = async () => {
  const log = logBox(), box = document.getElementById("follow");
  if (log && box && box.checked && log.dataset.more && !document.hidden) {
    try {
      const answer = await fetch(log.dataset.more, { cache: "no-store" });
      const text = answer.ok ? await answer.text() : "";
      if (text) {
        log.append(text);
        if (log.textContent.length > 400000) log.textContent = log.textContent.slice(-200000);
        log.dataset.more = log.dataset.more.replace(/from=\d+$/, `from=${answer.headers.get("x-next")}`);
        if (document.getElementById("log-search")?.value) paint(); else log.scrollTop = log.scrollHeight;
      }
    } catch { /* it is asked again */ }
  }
  setTimeout(follow, 700);
};
document.addEventListener("change", (event) => {
  if (event.target.id === "wrap") logBox().classList.toggle("wrap", event.target.checked);
});
document.addEventListener("input", (event) => { if (event.target.id === "log-search") { at = -1; paint(); } });
document.addEventListener("keydown", (event) => {
  if (event.target.id === "log-search" && event.key === "Enter") { event.preventDefault(); step(event.shiftKey ? -1 : 1); }
});
if (logBox()) logBox().scrollTop = logBox().scrollHeight;
follow();
