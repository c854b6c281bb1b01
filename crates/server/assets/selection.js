// Rows selected in a table, for actions on several jobs. The selection outlives a refresh of the table.
import { plural } from "./format.js";

const selected = new Set();

export const selectedJobs = () => [...selected];
export const clearSelection = () => { selected.clear(); showSelection(); };

const boxes = () => [...document.querySelectorAll("input[name=pick]")];
const setSelected = (box, on) => { if (on) selected.add(box.value); else selected.delete(box.value); };

const showSelection = () => {
  const bar = document.getElementById("bulk");
  if (!bar) return;
  const present = boxes();
  for (const box of present) box.checked = selected.has(box.value);
  const all = document.getElementById("pick-all");
  if (all) {
    all.checked = present.length > 0 && present.every((box) => box.checked);
    all.indeterminate = !all.checked && present.some((box) => box.checked);
  }
  bar.hidden = selected.size === 0;
  document.getElementById("bulk-count").textContent = `${plural(selected.size, "job")} selected`;
  for (const control of bar.querySelectorAll("button, input")) control.disabled = selected.size === 0;
};

document.addEventListener("warpyard:swapped", showSelection);
document.addEventListener("change", (event) => {
  const box = event.target;
  if (box.name === "pick") setSelected(box, box.checked);
  else if (box.id === "pick-all") for (const one of boxes()) setSelected(one, box.checked);
  else return;
  showSelection();
});
showSelection();
