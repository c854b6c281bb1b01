// Values read off a chart, by the pointer or with the arrow keys: a cursor at the nearest sample, and the value of each
// series there in place of its latest.
const WIDTH = 600;
// Above this many seconds a chart's range may span two days, so the date is shown with the time.
const HALF_A_DAY = 43200;

const samplesOf = (chart) => chart.dataset.moments.split(" ").map(Number);
const rangeOf = (chart) => [Number(chart.dataset.from) / 1000, Number(chart.dataset.to) / 1000];
const nearestSample = (samples, wanted) =>
  samples.reduce((best, at, i) => (Math.abs(at - wanted) < Math.abs(samples[best] - wanted) ? i : best), 0);

const setCursor = (chart, path) => {
  for (const cursor of chart.querySelectorAll(".cursor")) cursor.setAttribute("d", path);
};
const setValue = (item, value, unit) => {
  item.querySelector("b").textContent = value;
  item.querySelector(".quiet").textContent = value === "1" && unit === "tasks" ? "task" : unit;
};

const readSample = (chart, sample) => {
  if (!chart.dataset.moments) return;
  const at = samplesOf(chart)[sample], [from, to] = rangeOf(chart);
  chart.classList.add("read");
  const x = Math.min(WIDTH, Math.max(0, ((at - from) / (to - from)) * WIDTH));
  setCursor(chart, `M${x} 0V120`);
  const series = chart.querySelectorAll("[data-values]");
  chart.querySelectorAll("[data-read]").forEach((item, i) => {
    item.dataset.now ??= item.querySelector("b").textContent;
    setValue(item, series[i].dataset.values.split(" ")[sample] || "–", chart.dataset.unit);
  });
  const date = new Date(at * 1000);
  chart.querySelector(".when").textContent = to - from > HALF_A_DAY ? date.toLocaleString() : date.toLocaleTimeString();
};

const showLatest = (chart) => {
  chart.classList.remove("read");
  setCursor(chart, "");
  for (const item of chart.querySelectorAll("[data-read][data-now]")) {
    setValue(item, item.dataset.now, chart.dataset.unit);
    delete item.dataset.now;
  }
  chart.querySelector(".when").textContent = "";
};
const showLatestExceptOn = (chart) => {
  for (const other of document.querySelectorAll(".chart.read")) if (other !== chart) showLatest(other);
};

// What the last reading followed: the pointer's place, or the sample the keys went to. A chart is known by its plot's
// name, because a refresh replaces its elements.
let pointer = null, keyed = null;

const readAtPointer = ({ clientX, target }) => {
  const chart = target.closest?.(".chart"), plot = target.closest?.(".plot");
  showLatestExceptOn(chart);
  if (!chart || !plot) return;
  const [from, to] = rangeOf(chart), box = plot.querySelector("svg").getBoundingClientRect();
  readSample(chart, nearestSample(samplesOf(chart), from + ((clientX - box.left) / box.width) * (to - from)));
};
const followPointer = ({ clientX, clientY, target }) => {
  keyed = null;
  pointer = { clientX, clientY, target };
  readAtPointer(pointer);
};

const focusedPlot = () => document.activeElement?.closest?.(".plot");
const keyedChart = () => {
  const plot = focusedPlot();
  return keyed && plot?.dataset.focus === keyed.plot ? plot.closest(".chart") : null;
};

document.addEventListener("pointermove", followPointer);
document.addEventListener("pointerdown", followPointer);
document.addEventListener("keydown", (event) => {
  const plot = focusedPlot(), step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!plot || !step) return;
  event.preventDefault();
  const chart = plot.closest(".chart"), samples = samplesOf(chart);
  const from = keyedChart() ? nearestSample(samples, keyed.at) : samples.length;
  const sample = Math.min(samples.length - 1, Math.max(0, from + step));
  [pointer, keyed] = [null, { plot: plot.dataset.focus, at: samples[sample] }];
  showLatestExceptOn(chart);
  readSample(chart, sample);
});
// Deferred, because a chart that a refresh replaces loses the focus and has it again at once.
document.addEventListener("focusout", () => setTimeout(() => {
  if (!keyedChart()) keyed = null;
  if (!pointer) showLatestExceptOn(keyedChart());
}, 0));
// A refreshed chart is read where the old one was.
document.addEventListener("warpyard:swapped", () => {
  const target = pointer && document.elementFromPoint(pointer.clientX, pointer.clientY), chart = keyedChart();
  if (target) readAtPointer({ ...pointer, target });
  else if (chart) readSample(chart, nearestSample(samplesOf(chart), keyed.at));
});
