// Values read off a chart: under the pointer, or with the arrow keys where it has the focus, a cursor at the nearest
// sample and the value of each series there.
"use strict";
const momentsOf = (chart) => chart.dataset.moments.split(" ").map(Number);
const rangeOf = (chart) => [Number(chart.dataset.from) / 1000, Number(chart.dataset.to) / 1000];
const readAt = (chart, at) => {
  const moments = momentsOf(chart), [from, to] = rangeOf(chart);
  if (!chart.dataset.moments) return;
  chart.classList.add("read");
  const x = Math.min(600, Math.max(0, ((moments[at] - from) / (to - from)) * 600));
  for (const cursor of chart.querySelectorAll(".cursor")) cursor.setAttribute("d", `M${x} 0V120`);
  const series = chart.querySelectorAll("[data-values]");
  chart.querySelectorAll("[data-read]").forEach((item, i) => {
    item.dataset.now ??= item.querySelector("b").textContent;
    sayValue(item, series[i].dataset.values.split(" ")[at] || "–", chart.dataset.unit);
  });
  // Over more than some hours, which day it was is in doubt.
  const when = new Date(moments[at] * 1000);
  chart.querySelector(".when").textContent = to - from > 43200 ? when.toLocaleString() : when.toLocaleTimeString();
};
const sayValue = (item, value, unit) => {
  item.querySelector("b").textContent = value;
  item.querySelector(".quiet").textContent = value === "1" && unit === "tasks" ? "task" : unit;
};
const leaveChart = (chart) => {
  chart.classList.remove("read");
  for (const cursor of chart.querySelectorAll(".cursor")) cursor.setAttribute("d", "");
  for (const item of chart.querySelectorAll("[data-read][data-now]")) {
    sayValue(item, item.dataset.now, chart.dataset.unit);
    delete item.dataset.now;
  }
  chart.querySelector(".when").textContent = "";
};
const leaveOthers = (chart) => { for (const other of document.querySelectorAll(".chart.read")) if (other !== chart) leaveChart(other); };
const nearest = (moments, wanted) => moments.reduce((best, m, i) => (Math.abs(m - wanted) < Math.abs(moments[best] - wanted) ? i : best), 0);
const readOff = (event) => {
  const chart = event.target.closest?.(".chart"), plot = event.target.closest?.(".plot");
  leaveOthers(chart);
  if (!chart || !plot) return;
  const [from, to] = rangeOf(chart), box = plot.querySelector("svg").getBoundingClientRect();
  readAt(chart, nearest(momentsOf(chart), from + ((event.clientX - box.left) / box.width) * (to - from)));
};
// Where the pointer is, or the moment the keys went to and on which chart: one that is drawn anew has the same name.
let pointer = null, keyed = null;
const follow = ({ clientX, clientY, target }) => { keyed = null; readOff((pointer = { clientX, clientY, target })); };
document.addEventListener("pointermove", follow);
document.addEventListener("pointerdown", follow);
const focusedPlot = () => document.activeElement?.closest?.(".plot");
const keyedChart = () => { const plot = focusedPlot(); return keyed && plot?.dataset.focus === keyed.name ? plot.closest(".chart") : null; };
document.addEventListener("keydown", (event) => {
  const plot = focusedPlot(), step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!plot || !step) return;
  event.preventDefault();
  const chart = plot.closest(".chart"), moments = momentsOf(chart), from = keyedChart() ? nearest(moments, keyed.moment) : moments.length;
  const at = Math.min(moments.length - 1, Math.max(0, from + step));
  [pointer, keyed] = [null, { name: plot.dataset.focus, moment: moments[at] }];
  leaveOthers(chart);
  readAt(chart, at);
});
// A chart that is drawn anew has the focus again by then.
document.addEventListener("focusout", () => setTimeout(() => { if (!keyedChart()) keyed = null; if (!pointer) leaveOthers(keyedChart()); }, 0));
// A chart drawn anew is read as the old one was, under a pointer that stands still or where the keys went.
document.addEventListener("warpyard:swapped", () => {
  const target = pointer && document.elementFromPoint(pointer.clientX, pointer.clientY), chart = keyedChart();
  if (target) readOff({ ...pointer, target }); else if (chart) readAt(chart, nearest(momentsOf(chart), keyed.moment));
});
