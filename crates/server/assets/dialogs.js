// Messages to the person at the page: toasts, which may offer to undo, and the question before what cannot be undone.
import { el } from "./dom.js";

const MOST_TOASTS = 4;

const button = (text, attributes, onClick) => {
  const one = el("button", { type: "button", ...attributes }, text);
  one.addEventListener("click", onClick);
  return one;
};

const show = (text, undo, failed) => {
  const box = document.getElementById("toasts");
  const toast = el("div", { class: failed ? "toast wrong" : "toast", role: failed ? "alert" : "status" }, el("span", {}, text));
  const close = () => toast.remove();
  if (undo) toast.append(button("Undo", {}, () => { close(); undo(); }));
  toast.append(button("✕", { class: "plain", "aria-label": "Close" }, close));
  box.append(toast);
  while (box.children.length > MOST_TOASTS) box.firstChild.remove();
  setTimeout(close, failed ? 20000 : 9000);
};

export const notify = (text, undo) => show(text, undo, false);
export const notifyError = (error) => show(error.detail || String(error), null, true);

// Whether the person agrees; `yes` is the text of the button that does it.
export const confirm = (question, yes) => new Promise((done) => {
  const dialog = document.getElementById("ask");
  dialog.querySelector("p").textContent = question;
  dialog.querySelector("[value=yes]").textContent = yes;
  dialog.returnValue = "";
  dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true });
  dialog.showModal();
});
