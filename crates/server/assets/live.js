// Ties a page to the event stream: refreshes it when a notice concerns it, and shows at its top whether it is current.
import { countDurations, localiseDates, setClock, showSimulationClock } from "./clock.js";
import { formatSpan } from "./format.js";
import { answeredAt, currentSeq, expectSeq, main, refresh, refreshSoon, updatedAt } from "./refresh.js";
import { followEvents } from "./stream.js";

// GPU readings change without an event, so a connected page is never older than this many milliseconds.
const MAX_AGE = 2000;

const connection = document.getElementById("link");
const connectionText = document.getElementById("link-word");
const updated = document.getElementById("updated");

const showConnection = (state, text) => {
  if (connection.dataset.state === state) return;
  connection.dataset.state = state;
  connectionText.textContent = text;
};

const showAge = () => {
  updated.textContent = `updated ${formatSpan(Math.floor((Date.now() - updatedAt()) / 1000) * 1000)} ago`;
  updated.title = new Date(updatedAt()).toLocaleString();
};

const concerns = (notice) => {
  const job = main().dataset.job;
  return !main().dataset.still && (!job || notice.all || notice.jobs.includes(job));
};

const handle = (message) => {
  if (message.state === "on") showConnection("on", "connected");
  if (message.state === "off") showConnection("off", "disconnected, reconnecting");
  if (message.seq === undefined) return;
  expectSeq(message.seq);
  if (message.reset || concerns(message.notice)) refreshSoon();
};

const refreshIfOld = () => {
  const old = Date.now() - answeredAt() > MAX_AGE;
  if (connection.dataset.state === "on" && !main().dataset.still && old) refreshSoon();
};

setClock(main());
localiseDates();
countDurations();
showAge();
followEvents({ handle, after: currentSeq, reconnected: refresh });
document.addEventListener("visibilitychange", () => { if (!document.hidden) refreshSoon(); });
document.addEventListener("warpyard:swapped", showAge);
setInterval(refreshIfOld, 1000);
setInterval(() => { countDurations(); showAge(); }, 1000);
if (document.querySelector("[data-clock]")) setInterval(showSimulationClock, 100);
