// Times on an open page: counts durations on by the server's clock, and writes dates in the reader's time zone.
import { formatElapsed, formatSpan } from "./format.js";

// The server's clock at the last update. Where a simulation is shown it runs at another pace than ours.
let clock = { shown: 0, at: 0, pace: 1 };

export const setClock = (main) => {
  clock = { shown: Number(main.dataset.now), at: Date.now(), pace: Number(main.dataset.pace) };
};

// The time by the server's clock, in milliseconds since 1970.
export const serverNow = () => clock.shown + (Date.now() - clock.at) * clock.pace;

const setText = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

export const countDurations = () => {
  for (const time of document.querySelectorAll("time[data-since]")) {
    setText(time, formatSpan(serverNow() - Number(time.dataset.since)));
  }
  for (const time of document.querySelectorAll("time[data-until]")) {
    setText(time, formatSpan(Number(time.dataset.until) - serverNow()));
  }
};

export const localiseDates = () => {
  const format = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };
  for (const time of document.querySelectorAll("main time[datetime]")) {
    const at = new Date(time.getAttribute("datetime"));
    if (isNaN(at)) continue;
    time.title = at.toLocaleString();
    if (time.dataset.date !== undefined) time.textContent = at.toLocaleString([], format);
  }
};

// The simulated time since the simulation began.
export const showSimulationClock = () => {
  const time = document.querySelector("[data-clock]");
  if (!time) return;
  setText(time, formatElapsed(Math.max(0, Math.floor((serverNow() - Number(time.dataset.clock)) / 1000))));
  time.title = new Date(serverNow()).toLocaleString();
};
