// One press of Apply: does the edit still fit what is on the canvas, one undo step, the new nodes selected.
import { titlesOf } from "./advice.js";
import { applyEdit, boxOf, keepApart } from "./apply.js";
import { rootOf, workflowId } from "./graph.js";
import { messageOf } from "./http.js";
import { overlap } from "./place.js";
import { CannotApply, WHY } from "./wires.js";

/** Which input comes out of which output of nodes that change nothing about a value. */
const THROUGH = {
  HeadroomPurgeVRAM: ["value"], HeadroomOffloadModel: ["model", "after"], HeadroomCastBF16: ["model"],
  HeadroomSizeSorter: [null, null, "items"], HeadroomRestoreOrder: ["items"], HeadroomMoveToCPU: ["value"], HeadroomOOMGuard: ["model"], HeadroomMemoryReport: ["value"],
};
const MOST_FRAMES = 60;
const STILL_FRAMES = 6;
/** Newer frontends count what changes within 50 ms after a step to that step. */
const SQUASH_MS = 150;

/** What is undone: nodes, wires and subgraphs, not what part of them is in view. */
function contentOf(graph) {
  const { nodes, links, definitions } = graph.serialize();
  return JSON.stringify([nodes, links, definitions]);
}

/** Our nodes between an output and a link of the prompt; null: it comes from elsewhere. */
function between(prompt, link, [id, slot]) {
  const passed = [];
  for (let at = link, left = 100; Array.isArray(at) && left; left -= 1) {
    if (String(at[0]) === String(id) && at[1] === slot) return passed;
    const node = prompt[at[0]];
    passed.push(node);
    at = node?.inputs?.[THROUGH[node.class_type]?.[at[1]]];
  }
  return null;
}

/** Whether a node does what an insert is to do: of its class, and about the same model or index. */
function isSame(node, step, prompt) {
  if (node.class_type !== step.class_type) return false;
  return Object.entries(step.links ?? {}).every(([name, link]) => (
    String(link[0]).startsWith("ref:") || between(prompt, node.inputs[name], link) !== null));
}

/**
 * Raise CannotApply when the canvas, as the API prompt that it gives now, is not what was advised
 * about. `classes` are the classes of nodes in the run, by id.
 */
export function checkEdit(edit, prompt, classes) {
  const known = (id) => {
    const [node, ran] = [prompt[id], classes.get(String(id))];
    if (!node) throw new CannotApply(WHY.gone, { id });
    const ours = node.class_type.startsWith("Headroom");
    if (ran && node.class_type !== ran && !ours) throw new CannotApply(WHY.changed, { node: `#${id}` });
    return node;
  };
  const isOwn = (id) => String(id).startsWith("ref:");
  for (const step of edit.steps) {
    if (step.node && !isOwn(step.node)) known(step.node);
    if (step.op === "replace" && known(step.node).class_type === step.class_type) throw new CannotApply(WHY.done, {});
    for (const [id] of Object.values(step.links ?? {})) if (!isOwn(id)) known(id);
    if (step.op !== "insert" || isOwn(step.from[0])) continue;
    known(step.from[0]);
    for (const [id, name] of step.to.filter(([to]) => !isOwn(to))) {
      const passed = between(prompt, known(id).inputs[name], step.from);
      if (!passed) throw new CannotApply(WHY.changed, { node: `#${id}` });
      if (passed.some((node) => isSame(node, step, prompt))) throw new CannotApply(WHY.done, {});
    }
  }
}

/** Whether an edit is still to be made; one that does not fit raises CannotApply. */
function isDue(edit, prompt, classes) {
  try {
    checkEdit(edit, prompt, classes);
    return true;
  } catch (error) {
    if (!(error instanceof CannotApply) || error.why !== WHY.done) throw error;
    return false;
  }
}

/**
 * Apply edits that are not there yet, in order, as one step of undo; what does not fit raises CannotApply and leaves
 * everything as it was. `canvas` is LiteGraph's, `prompt()` gives the API prompt of what is on it,
 * `create(class)` a node, `undo()` takes the last step back, `frame()` waits for the next drawing, `wait(ms)` longer,
 * `growth()` says by how much new nodes may grow when they are first drawn.
 */
export async function applyEdits(edits, classes, { canvas, prompt, create, undo, frame, wait, growth = () => 1 }) {
  const before = await prompt();
  const due = edits.filter((edit) => isDue(edit, before, classes));
  if (!due.length) throw new CannotApply(WHY.done, {});
  const nodes = [];
  let failed = null;
  canvas.emitBeforeChange();
  canvas.emitAfterChange(); // what the user did last, a new seed for example, is a step of its own
  await wait(SQUASH_MS);
  const root = rootOf(canvas.graph);
  const content = contentOf(root);
  canvas.emitBeforeChange();
  try {
    for (const edit of due) nodes.push(...applyEdit(root, edit, create, growth()));
    open(canvas, nodes);
    await still(canvas, nodes, frame);
    keepApart(nodes);
    await still(canvas, nodes, frame);
    select(canvas, nodes); // now, because the frontend puts its own view of a graph that is opened back
    // LiteGraph does so later by itself, which would be one more step of undo.
    for (const graph of new Set([root, ...nodes.map((node) => node.graph)])) graph.updateExecutionOrder();
  } catch (error) {
    failed = error;
  } finally {
    canvas.emitAfterChange();
  }
  if (!failed) return nodes;
  if (contentOf(root) !== content) await undo(); // else it would take back what the user did last
  throw failed;
}

/** Wait until all nodes keep their size: Nodes 2.0 measures them when they are first drawn. */
async function still(canvas, nodes, frame) {
  const graphs = new Set([canvas.graph, ...nodes.map((node) => node.graph)]);
  const sizes = () => JSON.stringify([...graphs].map((graph) => graph.nodes.map((node) => [...node.size])));
  let [last, same] = [sizes(), 0];
  for (let left = MOST_FRAMES; left && same < STILL_FRAMES; left -= 1) {
    await frame();
    same = sizes() === last ? same + 1 : 0;
    last = sizes();
  }
}

/** Open the subgraph of the first new node, unless some are in the graph that is shown. */
function open(canvas, nodes) {
  if (nodes.length && nodes.every((node) => node.graph !== canvas.graph)) canvas.setGraph(nodes[0].graph);
}

/** Select the new nodes that are in the graph that is shown. */
function select(canvas, nodes) {
  const shown = nodes.filter((node) => node.graph === canvas.graph);
  if (!shown.length) return;
  canvas.selectItems(shown);
  const view = canvas.ds?.visible_area;
  if (view && !shown.some((node) => overlap(boxOf(node), view))) canvas.centerOnNode(shown[0]);
  canvas.setDirty(true, true);
}

/**
 * Gives `apply(advice, run)`: it puts pieces of advice on a run into the workflow on the canvas, as
 * one step of undo, and tells what came of it. `page()` gives what `applyEdits` needs of the page.
 */
export function createApplying({ words, notify, page }) {
  let last = Promise.resolve();

  async function applyNow(advice, run) {
    const t = words();
    const classes = new Map(run.nodes.map((node) => [String(node.node_id), node.class_type]));
    const names = titlesOf(advice, t);
    try {
      const tools = page();
      const id = tools.canvas && workflowId(rootOf(tools.canvas.graph));
      if (id && run.workflow_id && run.workflow_id !== id) throw new CannotApply(WHY.other, {});
      await applyEdits(advice.map((item) => item.edit), classes, tools);
      notify("success", t("Applied: {names}", { names }), t("New nodes are selected; Ctrl+Z takes all of it back."));
    } catch (error) {
      const isRefused = error instanceof CannotApply; // else an error of the page, or of a pack in it
      notify("warn", t("Nothing was changed"), isRefused ? t(error.why, error.values) : messageOf(error));
      if (!isRefused) throw error;
    }
  }

  /** One after the other: two at once would be one step of undo. */
  return (advice, run) => {
    last = last.then(() => applyNow(advice, run)).catch((error) => console.error("[Headroom]", error));
    return last;
  };
}
