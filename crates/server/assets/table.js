// Filter, order and columns of a table. Filter and order are in the page's address, so that a view can be bookmarked
// and shared; which columns are shown is remembered in this browser, separately for each page.
import { refreshNow } from "./refresh.js";

// The table's heads change the address and not the filter form, so the order is taken from the address.
document.addEventListener("formdata", (event) => {
  if (!event.target.matches("form.filter")) return;
  const sort = new URLSearchParams(location.search).get("sort");
  if (sort) event.formData.set("sort", sort); else event.formData.delete("sort");
});

const applyFilter = (form) => {
  const query = new URLSearchParams(new FormData(form));
  for (const [key, value] of [...query]) if (!value) query.delete(key);
  history.replaceState(null, "", `?${query}`);
  refreshNow();
};
let typing = 0;
document.addEventListener("input", (event) => {
  const form = event.target.closest("form.filter");
  if (!form) return;
  clearTimeout(typing);
  typing = setTimeout(() => applyFilter(form), 120);
});

// Links within a page, such as to the next rows, change the address and refresh only the parts that differ.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-part]");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, "", link.getAttribute("href"));
  refreshNow();
});
window.addEventListener("popstate", refreshNow);

// Columns are shown and hidden by classes on the root element, which rows drawn later follow too.
const applyColumns = (boxes) => {
  const classes = document.documentElement.classList;
  for (const box of boxes) {
    classes.toggle(`show-${box.value}`, box.checked);
    classes.toggle(`hide-${box.value}`, !box.checked);
  }
};
const columns = document.querySelector(".columns");
if (columns) {
  const key = `warpyard-columns-${columns.dataset.page}`;
  const boxes = [...columns.querySelectorAll("[name=column]")];
  let stored = {};
  try { stored = JSON.parse(localStorage.getItem(key)) || {}; } catch { /* the defaults hold */ }
  for (const box of boxes) box.checked = stored[box.value] ?? box.dataset.shown !== undefined;
  columns.addEventListener("change", () => {
    const choice = Object.fromEntries(boxes.map((box) => [box.value, box.checked]));
    try { localStorage.setItem(key, JSON.stringify(choice)); } catch { /* it holds until the page is left */ }
    applyColumns(boxes);
  });
  applyColumns(boxes);
}

// On a narrow screen the table comes first and its controls are folded.
const controls = document.querySelector("details.controls");
if (controls && matchMedia("(max-width: 46rem)").matches) controls.open = false;
