// The output on a job's page: follows it while the task runs, wraps its lines and searches it.
const FOLLOW_EVERY = 700;
const MOST_MATCHES = 1000;
// Above MOST_TEXT characters only the last KEPT_TEXT stay on the page.
const MOST_TEXT = 400000, KEPT_TEXT = 200000;

const logBox = () => document.getElementById("log");
const searchText = () => document.getElementById("log-search")?.value || "";
const highlight = (name, ranges) => CSS.highlights?.set(name, new Highlight(...ranges));

let matches = [], current = -1;

// The places of a text in the log, without regard to case.
const findMatches = (log, text) => {
  log.normalize();
  const node = log.firstChild, wanted = text.toLowerCase(), content = log.textContent.toLowerCase();
  const found = [];
  for (let i = content.indexOf(wanted); node && i >= 0 && found.length < MOST_MATCHES; i = content.indexOf(wanted, i + wanted.length)) {
    const range = new Range();
    range.setStart(node, i);
    range.setEnd(node, i + text.length);
    found.push(range);
  }
  return found;
};

const search = () => {
  const log = logBox(), count = document.getElementById("log-count"), text = searchText();
  if (!log || !count) return;
  CSS.highlights?.clear();
  matches = text ? findMatches(log, text) : [];
  if (matches.length) highlight("found", matches);
  count.textContent = !text ? "" : matches.length ? `${matches.length} found` : "not found";
};

const goToMatch = (by) => {
  if (!matches.length) return;
  current = (current + by + matches.length) % matches.length;
  const log = logBox(), place = matches[current].getBoundingClientRect(), frame = log.getBoundingClientRect();
  log.scrollTop += place.top - frame.top - frame.height / 2;
  highlight("found-here", [matches[current]]);
  document.getElementById("log-count").textContent = `${current + 1} of ${matches.length}`;
};

const appendOutput = async (log) => {
  const response = await fetch(log.dataset.more, { cache: "no-store" });
  const text = response.ok ? await response.text() : "";
  if (!text) return;
  log.append(text);
  if (log.textContent.length > MOST_TEXT) log.textContent = log.textContent.slice(-KEPT_TEXT);
  log.dataset.more = log.dataset.more.replace(/from=\d+$/, `from=${response.headers.get("x-next")}`);
  if (searchText()) search(); else log.scrollTop = log.scrollHeight;
};

const follow = async () => {
  const log = logBox();
  if (log?.dataset.more && document.getElementById("follow")?.checked && !document.hidden) {
    try { await appendOutput(log); } catch { /* it is requested again */ }
  }
  setTimeout(follow, FOLLOW_EVERY);
};

document.addEventListener("change", (event) => {
  if (event.target.id === "wrap") logBox().classList.toggle("wrap", event.target.checked);
});
document.addEventListener("input", (event) => {
  if (event.target.id !== "log-search") return;
  current = -1;
  search();
});
document.addEventListener("keydown", (event) => {
  if (event.target.id !== "log-search" || event.key !== "Enter") return;
  event.preventDefault();
  goToMatch(event.shiftKey ? -1 : 1);
});
if (logBox()) logBox().scrollTop = logBox().scrollHeight;
follow();
