// What is wrong with a new job, shown at the field it is about; what belongs to no field is listed beneath the preview.
import { el } from "./dom.js";
import { fieldsOf } from "./job-schema.js";

const form = document.getElementById("job-form");

const clear = () => {
  for (const old of form.querySelectorAll("[aria-invalid]")) old.removeAttribute("aria-invalid");
  for (const old of form.querySelectorAll(".field .wrong-word")) { old.hidden = true; old.textContent = ""; }
  document.getElementById("toml-wrong").replaceChildren();
};

// The field a path leads to, or the innermost one around it. The path of a job of one task may name a task's field
// without the task.
const fieldAt = (path) => {
  const [first] = path.split(/[.[]/);
  const isTaskField = first in fieldsOf("TaskDoc") && !(first in fieldsOf("JobDoc"));
  for (let at = isTaskField ? `tasks[0].${path}` : path; at; at = at.replace(/(^|[.[])[^.[]*$/, "")) {
    const input = form.querySelector(`[data-path="${CSS.escape(at)}"]`);
    if (input) return input;
  }
  return null;
};

const withHelp = ({ message, help }) => (help ? `${message}; ${help}` : message);

const markField = (input, problem) => {
  input.setAttribute("aria-invalid", "true");
  const line = input.closest(".field").querySelector(".wrong-word");
  line.textContent = withHelp(problem);
  line.hidden = false;
  if (line.id) input.setAttribute("aria-describedby", line.id);
  const folded = input.closest("details");
  if (folded) folded.open = true;
};

const paragraph = (problem) => {
  const line = problem.line ? `line ${problem.line}: ` : "", path = problem.path ? `${problem.path}: ` : "";
  return el("p", { class: "wrong-word" }, `${line}${path}${withHelp(problem)}`);
};

export const showProblems = (problems) => {
  clear();
  const elsewhere = problems.filter((problem) => {
    const input = fieldAt(problem.path);
    if (input) markField(input, problem);
    return !input;
  });
  document.getElementById("wrong").replaceChildren(...elsewhere.map(paragraph));
};

// Shows what is wrong with the TOML beneath it; the form stays as it was.
export const showTomlProblems = (problems) => {
  showProblems([]);
  document.getElementById("toml").setAttribute("aria-invalid", "true");
  document.getElementById("toml-wrong").replaceChildren(...problems.map(paragraph));
};
