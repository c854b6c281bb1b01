// Values read off a chart: under the pointer, a line at the nearest sample and what each line is there.
"use strict";
const readOff = (event) => {
  const chart = event.target.closest?.(".chart");
  for (const other of document.querySelectorAll(".chart.read")) if (other !== chart) leaveChart(other);
  const plot = event.target.closest?.(".plot svg");
  if (!chart || !plot) return;
  const moments = chart.dataset.moments.split(" ").map(Number), box = plot.getBoundingClientRect();
  if (moments.length < 2) return;
  const [first, last] = [moments[0], moments[moments.length - 1]];
  const wanted = first + ((event.clientX - box.left) / box.width) * (last - first);
  let at = 0;
  moments.forEach((m, i) => { if (Math.abs(m - wanted) < Math.abs(moments[at] - wanted)) at = i; });
  chart.classList.add("read");
  const x = ((moments[at] - first) / (last - first)) * 600;
  plot.querySelector(".cursor").setAttribute("d", `M${x} 0V120`);
  chart.querySelectorAll(".legend li").forEach((item, i) => {
    const line = plot.querySelectorAll("[data-values]")[i], said = item.querySelector("b");
    item.dataset.now ??= said.textContent;
    sayValue(item, line.dataset.values.split(" ")[at] || "–", chart.dataset.unit);
  });
  const top = chart.querySelector(".ends span:last-child");
  top.dataset.now ??= top.textContent;
  // Over more than some hours, which day it was is in doubt.
  const when = new Date(moments[at] * 1000);
  top.textContent = last - first > 43200 ? when.toLocaleString() : when.toLocaleTimeString();
};
const sayValue = (item, value, unit) => {
  item.querySelector("b").textContent = value;
  item.querySelector(".quiet").textContent = value === "1" && unit === "tasks" ? "task" : unit;
};
const leaveChart = (chart) => {
  chart.classList.remove("read");
  chart.querySelector(".cursor")?.setAttribute("d", "");
  for (const item of chart.querySelectorAll("[data-now]")) {
    if (item.matches("li")) sayValue(item, item.dataset.now, chart.dataset.unit); else item.textContent = item.dataset.now;
    delete item.dataset.now;
  }
};
let pointer = null;
const follow = ({ clientX, clientY, target }) => readOff((pointer = { clientX, clientY, target }));
document.addEventListener("pointermove", follow);
document.addEventListener("pointerdown", follow);
// A chart drawn anew under a pointer that stands still is read as the old one was.
document.addEventListener("warpyard:swapped", () => {
  const target = pointer && document.elementFromPoint(pointer.clientX, pointer.clientY);
  if (target) readOff({ ...pointer, target });
});
