// What the panel consists of, from top to bottom.
import { h } from "./dom.js";

/** The panel's root, and the parts of it that are drawn again by their names. */
export function buildPanel(texts, onPurge) {
  const parts = {
    purge: h("button.headroom-button.headroom-primary", { type: "button", onclick: onPurge }),
    error: h("div.headroom-error", { role: "status" }),
    report: h("div"),
    memory: h("div.headroom-stack"),
    held: h("div"),
    reserve: h("div"),
    models: h("div.headroom-stack", { role: "list", "aria-label": texts.loadedModels }),
    picker: h("div"),
    run: h("div.headroom-stack"),
  };
  const { purge: button, error, report, memory, held, reserve: left, models, picker, run } = parts;
  const root = h(
    "div.headroom-panel",
    {},
    h("header.headroom-line", {}, h("h2", {}, "Headroom"), button),
    error,
    report,
    section(texts.memory, memory, held, left),
    section(texts.loadedModels, models),
    section(texts.runs, picker, run),
  );
  return { root, parts };
}

function section(title, ...content) {
  return h("section", {}, h("h3", {}, title), ...content);
}
