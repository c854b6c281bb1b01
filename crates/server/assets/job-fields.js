// Form fields of a new job, made from the schema: a checkbox, a menu or a text box for each field of the document.
import { el } from "./dom.js";
import { choicesOf, formatValue, isInteger, kindOf, parseValue, placeholderOf } from "./job-schema.js";

// Rows of the text boxes that take several lines.
const ROWS = { variables: 2, command: 1 };

const labelOf = (name) => name.replaceAll("_", " ").replace(/\b[gc]pus?\b/, (unit) => unit.slice(0, 3).toUpperCase() + unit.slice(3));

const flagInput = (owner, name, id, onChange) => {
  const input = el("input", { type: "checkbox", id });
  input.checked = owner[name] === true;
  input.addEventListener("change", () => {
    if (input.checked) owner[name] = true; else delete owner[name];
    onChange();
  });
  return input;
};

const choiceInput = (owner, name, schema, id, onChange) => {
  const choices = choicesOf(schema), usual = schema.default ?? choices[0].value;
  const option = ({ value, title, description }) =>
    el("option", { value, title: description, selected: (owner[name] ?? usual) === value }, title);
  const input = el("select", { id }, ...choices.map(option));
  input.addEventListener("change", () => {
    if (input.value === usual) delete owner[name]; else owner[name] = input.value;
    onChange();
  });
  return input;
};

const textInput = (owner, name, schema, id, onChange) => {
  const rows = ROWS[kindOf(schema)];
  const size = rows ? { rows } : { inputmode: isInteger(schema) ? "numeric" : undefined };
  const attributes = { id, placeholder: placeholderOf(schema), spellcheck: "false", autocomplete: "off", ...size };
  const input = el(rows ? "textarea" : "input", attributes);
  input.value = formatValue(owner[name], schema);
  input.addEventListener("input", () => {
    const before = owner[name], value = parseValue(input.value, schema);
    if (value === undefined) delete owner[name]; else owner[name] = value;
    onChange(before, value);
  });
  return input;
};

// The field `name` of `owner`, a job or a task of the document, which `path` leads to. `onChange` runs after each change,
// for texts with the value before and after.
export const makeField = (owner, path, name, schema, onChange) => {
  const id = `f-${path}${name}`.replace(/[^a-z0-9-]/gi, "-");
  const kind = kindOf(schema);
  const input = kind === "flag" ? flagInput(owner, name, id, onChange)
    : kind === "choice" ? choiceInput(owner, name, schema, id, onChange)
      : textInput(owner, name, schema, id, onChange);
  input.dataset.path = `${path}${name}`;
  const label = el("label", { for: id, title: schema.description }, labelOf(name));
  return el("div", { class: `field f-${name}` }, label, input, el("p", { class: "wrong-word", id: `${id}-wrong`, hidden: true }));
};
