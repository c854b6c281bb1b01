// Elements made by the scripts. Text is always set as text, never as markup.
const SVG = "http://www.w3.org/2000/svg";

const setAttributes = (element, attributes) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, value);
  }
  return element;
};

// An element with its attributes and children; `true` is an attribute without a value, `null` no child.
export const el = (tag, attributes = {}, ...children) => {
  const element = setAttributes(document.createElement(tag), attributes);
  element.append(...children.filter((child) => child !== null));
  return element;
};

export const svg = (tag, attributes = {}, ...children) => {
  const element = setAttributes(document.createElementNS(SVG, tag), attributes);
  element.append(...children);
  return element;
};
