// Keyboard shortcuts, listed at the foot of every page, and a click that copies an example command.
const focusSearch = (event) => {
  const search = document.querySelector("input[type=search]");
  if (!search) return;
  event.preventDefault();
  const controls = document.querySelector("details.controls");
  if (controls) controls.open = true;
  search.focus();
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  const rows = [...document.querySelectorAll("tbody th a")];
  const at = rows.indexOf(document.activeElement);
  if (event.key === "/") focusSearch(event);
  if (event.key === "j" && rows.length) rows[Math.min(at + 1, rows.length - 1)].focus();
  if (event.key === "k" && rows.length) rows[Math.max(at - 1, 0)].focus();
  if (event.key === "x" && at >= 0) rows[at].closest("tr").querySelector("input[name=pick]")?.click();
  if (event.key === "p") document.querySelector("[data-focus=sim-pause]")?.click();
  if (event.key === "n") location.assign("/new");
});

document.addEventListener("click", (event) => {
  const code = event.target.closest(".empty code");
  if (code && navigator.clipboard) navigator.clipboard.writeText(code.textContent);
});
