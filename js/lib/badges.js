// One badge for each node: what it used in the newest run of its workflow.
import { badgeText } from "./format.js";
import { figuresByNode, rootOf, workflowId } from "./graph.js";

const MOST_WORKFLOWS = 30;
const NO_ID = /^[0-]*$/;
/** Of a node that ran, of a cached one. */
const COLORS = [
  { fgColor: "#dbe7ff", bgColor: "#27406b" },
  { fgColor: "#c3c7cf", bgColor: "#43474f" },
];

/**
 * Keeps the newest run of each workflow and tells each node its badge.
 * `graph()` is the graph on the canvas, `path()` the file of its tab, `shown()` whether badges are
 * wanted, `words()` the texts, `room(node)` the pixels that a badge may take, `redraw()` makes the
 * canvas draw again.
 */
export function createBadges({ graph, path = () => "", shown, words, room, redraw }) {
  /** @type {Map<string, Run>} */
  const runs = new Map();
  let texts = new WeakMap();
  /** The file of the tab for which the texts were worked out. */
  let shownPath = "";

  /**
   * The key of the workflow on the canvas. One that came without an id (an API prompt) has zeros
   * as its id, and gets another each time its tab is shown: its key is the tab's file.
   */
  function key() {
    const id = workflowId(rootOf(graph()));
    return (NO_ID.test(id) && path()) || id;
  }

  /**
   * Work out the texts again: after a run, after loading a workflow, after a setting changed.
   * Not `settled`: a workflow is being loaded, and older frontends tell the path of the one before.
   */
  function update(settled = true) {
    work(settled);
    redraw();
  }

  function work(settled) {
    shownPath = path();
    texts = new WeakMap();
    const root = rootOf(graph());
    const run = root && (runs.get(workflowId(root)) ?? (settled ? runs.get(path()) : null));
    if (run && shown()) {
      for (const [node, figures] of figuresByNode(root, run)) {
        texts.set(node, { text: badgeText(figures, words(), room(node)), ...COLORS[Number(figures.cached)] });
      }
    }
  }

  /** A tab may become the active one at any time after its workflow has been loaded. */
  function of(node) {
    if (path() !== shownPath) work(true);
    return texts.get(node) ?? { text: "" };
  }

  return {
    update,
    /**
     * Keep `run` for the workflow that it was queued from: by the id that came with it, else by what
     * was on the canvas when it began; null: what is there now.
     */
    add(run, queuedOn = null) {
      const id = run.workflow_id ?? "";
      const owner = NO_ID.test(id) ? queuedOn ?? key() : id;
      runs.delete(owner);
      runs.set(owner, run);
      const [oldest] = runs.keys();
      if (runs.size > MOST_WORKFLOWS) runs.delete(oldest);
      update();
    },
    key,
    of,
  };
}
