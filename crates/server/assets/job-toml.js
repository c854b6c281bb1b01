// A job document as TOML.
const quote = (text) => JSON.stringify(String(text)).replaceAll("\u007f", "\\u007f");
const key = (name) => (/^[A-Za-z0-9_-]+$/.test(name) ? name : quote(name));
const entry = ([name, value]) => `${key(name)} = ${literal(value)}`;
const literal = (value) => {
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (value && typeof value === "object") return `{ ${Object.entries(value).map(entry).join(", ")} }`;
  return typeof value === "string" ? quote(value) : String(value);
};

const isSet = ([name, value]) => value !== undefined && (value !== "" || name === "command");

export const toToml = ({ tasks, ...job }) => {
  const tables = tasks.map((task) => ["", "[[tasks]]", ...Object.entries(task).filter(isSet).map(entry)]);
  const lines = [...Object.entries(job).filter(isSet).map(entry), ...tables.flat()];
  return `${lines.join("\n").trim()}\n`;
};
