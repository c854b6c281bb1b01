// Durations and counts as the pages write them, rounded exactly as the server rounds them.
const twoDigits = (n) => String(n).padStart(2, "0");

// A duration in its two largest units, as `warpyard_api::quantity::format_span` writes it: "3m 12s".
export const formatSpan = (millis) => {
  const rounded = (unit) => Math.round(Math.max(0, millis) / unit);
  const tenths = rounded(100), seconds = rounded(1000), minutes = rounded(60000), hours = rounded(3600000);
  if (tenths > 0 && tenths < 10) return `0.${tenths}s`;
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${twoDigits(seconds % 60)}s`;
  if (minutes < 1440) return `${Math.floor(minutes / 60)}h ${twoDigits(minutes % 60)}m`;
  return `${Math.floor(hours / 24)}d ${twoDigits(hours % 24)}h`;
};

// A range of seconds from now, as `format_start_range` in pages/format.rs writes it: "in 3–5 min".
export const formatStartRange = (low, high) => {
  const [unit, name] = high < 60 ? [1, "s"] : high < 5400 ? [60, "min"] : high < 129600 ? [3600, "h"] : [86400, "d"];
  const [from, to] = [low, high].map((seconds) => Math.floor((seconds + unit / 2) / unit));
  if (to === 0) return "now";
  if (from === 0) return `within ${to} ${name}`;
  return from === to ? `in ${to} ${name}` : `in ${from}–${to} ${name}`;
};

// Elapsed seconds as a digital clock, with days once there are any: "1d 02:03:04".
export const formatElapsed = (seconds) => {
  const days = Math.floor(seconds / 86400);
  const clock = [Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, seconds % 60];
  return (days ? `${days}d ` : "") + clock.map(twoDigits).join(":");
};

export const plural = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
