// The graph of a new job's tasks, drawn as dependencies are added: each task to the right of all it waits for.
import { svg } from "./dom.js";
import { draft, taskDependencies } from "./job-draft.js";

const BOX = { width: 154, height: 40 }, COLUMN = 190, ROW = 52, MARGIN = 4;
const MOST_TASKS = 60;

// The length of the longest chain of dependencies before each task; bounded, because a draft may contain a cycle.
const depthsOf = (tasks, index) => {
  const depths = tasks.map(() => 0);
  for (let round = 0; round < tasks.length; round += 1) {
    tasks.forEach((task, i) => {
      for (const { task: name } of taskDependencies(task)) {
        if (index.has(name)) depths[i] = Math.min(tasks.length, Math.max(depths[i], depths[index.get(name)] + 1));
      }
    });
  }
  return depths;
};

// The upper left corner of each task's box.
const placesOf = (depths) => {
  const used = new Map();
  return depths.map((depth) => {
    const row = used.get(depth) ?? 0;
    used.set(depth, row + 1);
    return { x: MARGIN + depth * COLUMN, y: MARGIN + row * ROW };
  });
};

const edge = (from, to) => {
  const [x1, y1, x2, y2] = [from.x + BOX.width, from.y + BOX.height / 2, to.x, to.y + BOX.height / 2], middle = (x1 + x2) / 2;
  return svg("path", { class: "edge", d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}` });
};
const box = (task, { x, y }) => {
  const name = task.name || "unnamed", most = task.array ? 9 : 16;
  const label = name.slice(0, most) + (name.length > most ? "…" : "") + (task.array ? ` × ${String(task.array).slice(0, 9)}` : "");
  return svg("g", { class: "node" },
    svg("rect", { x, y, ...BOX, rx: 8 }), svg("text", { class: "name", x: x + 12, y: y + 25 }, label));
};
const describe = (task) => {
  const names = taskDependencies(task).map((one) => one.task);
  return names.length ? `${task.name} after ${names.join(" and ")}` : task.name;
};

export const drawGraph = () => {
  const card = document.getElementById("new-graph"), { tasks } = draft.doc;
  card.hidden = tasks.length < 2 || tasks.length > MOST_TASKS;
  if (card.hidden) return;
  const index = new Map(tasks.map((task, i) => [task.name, i]));
  const places = placesOf(depthsOf(tasks, index));
  const width = BOX.width + MARGIN + Math.max(...places.map(({ x }) => x));
  const height = BOX.height + MARGIN + Math.max(...places.map(({ y }) => y));
  const edges = tasks.flatMap((task, i) => {
    const known = taskDependencies(task).map((one) => index.get(one.task)).filter((from) => from !== undefined);
    return known.map((from) => edge(places[from], places[i]));
  });
  const label = tasks.map(describe).join("; ");
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    ...edges, ...tasks.map((task, i) => box(task, places[i])));
  card.querySelector("div").replaceChildren(picture);
};
