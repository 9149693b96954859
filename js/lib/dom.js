// Build elements in one expression. Text is always set as text, never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

/** h("div.headroom-card", { title: "…", onclick: f }, child, "text", null) */
export function h(name, attributes = {}, ...children) {
  return build((tag) => document.createElement(tag), name, attributes, children);
}

/** The same for SVG elements. */
export function svg(name, attributes = {}, ...children) {
  return build((tag) => document.createElementNS(SVG, tag), name, attributes, children);
}

function build(create, name, attributes, children) {
  const [tag, ...classes] = name.split(".");
  const element = create(tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(attributes)) set(element, key, value);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function set(element, key, value) {
  if (value === null || value === undefined || value === false) return;
  if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
  else if (key === "style") for (const [k, v] of Object.entries(value)) element.style.setProperty(k, v);
  else element.setAttribute(key, value === true ? "" : value);
}

/**
 * Put what `content()` gives into an element in the place of what is there. What has a `data-focus`
 * of its own keeps the focus, and stays open, as what has that name afterwards.
 */
export function redraw(element, content) {
  const { activeElement: focused } = document;
  const name = element.contains(focused) ? focused?.getAttribute("data-focus") : null;
  const open = [...element.querySelectorAll("details[open] > [data-focus]")].map((part) => part.getAttribute("data-focus"));
  const named = (wanted) => element.querySelector(`[data-focus="${CSS.escape(wanted)}"]`);
  element.replaceChildren(...content());
  for (const part of open) named(part)?.parentElement.setAttribute("open", "");
  if (name) named(name)?.focus();
}
