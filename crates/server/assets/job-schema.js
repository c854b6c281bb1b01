// The job document's schema, from which the form of a new job is made: which fields there are, in which order, of which
// kind, with which examples and defaults. Nothing here names a field.
import { call } from "./api.js";

let definitions = {};

export const loadSchema = async () => { definitions = (await call("GET", "/v1/schema/job")).$defs; };

// A schema with references and nullable alternatives replaced by what they stand for; `definition` is the name of the
// definition it came from. Annotations of the field, such as its description, win over those of its type.
const resolve = (schema) => {
  const nonNull = schema.anyOf?.filter((one) => one.type !== "null");
  if (schema.$ref) {
    const { $ref, ...annotations } = schema, definition = $ref.split("/").pop();
    return { definition, ...resolve(definitions[definition]), ...annotations };
  }
  if (nonNull?.length === 1) {
    const { anyOf, ...annotations } = schema;
    return { ...resolve(nonNull[0]), ...annotations };
  }
  return schema;
};

// Every field of a definition by name, resolved; but for those that only programs fill in.
export const fieldsOf = (definition) => {
  const shown = Object.entries(definitions[definition].properties).filter(([, schema]) => !schema["x-form-hidden"]);
  return Object.fromEntries(shown.map(([name, schema]) => [name, resolve(schema)]));
};

// The fields that come first, in the order they are shown.
export const leadingFields = (definition) => definitions[definition]["x-form-order"] ?? [];

// The values a field may have: each with the word shown for it and what it means.
export const choicesOf = (schema) => {
  if (schema.enum) return schema.enum.map((value) => ({ value, title: value }));
  const listed = (schema.oneOf ?? []).filter((one) => one.const !== undefined);
  return listed.map(({ const: value, title, description }) => ({ value, title: title ?? value, description }));
};
export const choicesIn = (definition) => choicesOf(definitions[definition]);

const typesOf = (schema) => [].concat(schema.type ?? []);
const listIn = (schema) => schema.anyOf?.find((one) => one.type === "array");

export const kindOf = (schema) => {
  if (schema.definition === "Command") return "command";
  if (typesOf(schema).includes("boolean")) return "flag";
  if (typesOf(schema).includes("object")) return "variables";
  if (choicesOf(schema).length) return "choice";
  return listIn(schema) ? "list" : "scalar";
};
export const isInteger = (schema) => typesOf(schema).includes("integer");

// Examples are marked as such, so that none is mistaken for a value that is set.
export const placeholderOf = (schema) => {
  if (schema.default !== undefined) return `default ${schema.default}`;
  return schema.examples?.length ? `e.g. ${formatValue(schema.examples[0], schema)}` : "";
};

// A number where the schema takes one. Where it takes texts as well, only one that means the same as a text: "6" is not
// a size although 6 is one, and the server says what is missing.
const parseScalar = (text, schema) => {
  const isNumber = text.trim() !== "" && isFinite(Number(text));
  const alternatives = schema.anyOf?.map(resolve) ?? [];
  const isText = alternatives.some((one) => one.type === "string" && (!one.pattern || new RegExp(one.pattern).test(text.trim())));
  const takesNumber = alternatives.some((one) => ["integer", "number"].includes(one.type));
  if (isNumber && takesNumber && isText) return Number(text);
  if (typesOf(schema).includes("number") && isNumber) return Number(text);
  if (isInteger(schema)) return /^-?\d+$/.test(text.trim()) ? Number(text) : text.trim();
  return text;
};
const parseVariables = (text) => {
  const lines = text.split("\n").filter((line) => line.trim());
  return Object.fromEntries(lines.map((line) => {
    const [name, ...rest] = line.split("=");
    return [name.trim(), rest.join("=")];
  }));
};
// A command is one text for a shell, or a list of words written as JSON.
const parseCommand = (text) => {
  if (!text.trim().startsWith("[")) return text;
  try { return JSON.parse(text); } catch { return text; }
};

// What is written in a field as a value of the document; undefined where the field is left empty.
export const parseValue = (text, schema) => {
  if (text.trim() === "") return undefined;
  const kind = kindOf(schema);
  if (kind === "variables") return parseVariables(text);
  if (kind === "command") return parseCommand(text);
  if (kind !== "list") return parseScalar(text, schema);
  const items = resolve(listIn(schema).items);
  return text.split(",").map((item) => item.trim()).filter(Boolean).map((item) => parseScalar(item, items));
};

export const formatValue = (value, schema) => {
  if (value === undefined || value === null) return "";
  if (kindOf(schema) === "variables") return Object.entries(value).map(([name, text]) => `${name}=${text}`).join("\n");
  if (!Array.isArray(value)) return String(value);
  return kindOf(schema) === "command" ? JSON.stringify(value) : value.join(", ");
};
