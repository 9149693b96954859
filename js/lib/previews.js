// Texts of our nodes that other nodes show on the canvas, in the user's language.
import { saidText } from "./said.js";

const MOST_TEXTS = 200;

/**
 * Remembers what each text of a node that ran says, and puts it into the widgets that show it.
 * `words()` the texts of the page, `nodeOf(id)` the node of an execution id, null where there is none.
 * What comes over the wire stays English; only what is shown changes.
 */
export function createPreviews({ words, nodeOf }) {
  const known = new Map();
  const showing = new Set();

  function learn(output) {
    for (const [at, told] of (output.headroom ?? []).entries()) {
      const text = output.text?.[at];
      const said = saidText(JSON.parse(told), text, words());
      known.delete(text);
      if (said !== text) known.set(text, said);
      if (known.size > MOST_TEXTS) known.delete(known.keys().next().value);
    }
  }

  function show(id) {
    for (const widget of nodeOf(id)?.widgets ?? []) {
      const said = typeof widget.value === "string" ? known.get(widget.value) : undefined;
      if (said !== undefined) widget.value = said;
    }
  }

  return {
    /** What nodes gave, by execution id: after a node has run, or a workflow's outputs are back. */
    update(outputs) {
      const all = Object.entries(outputs).filter(([, output]) => Array.isArray(output?.text));
      for (const [id, output] of all) {
        learn(output);
        showing.add(id);
      }
      // Results from the cache come in any order: a text may be shown before it is known.
      if (known.size) for (const id of showing) show(id);
    },
  };
}
