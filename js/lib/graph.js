// Nodes on the canvas and the execution ids that runs name them by. Knows LiteGraph's objects
// only through what is handed in.
import { byCanvasNode, pathOf } from "./runs.js";

/** The graph at the top, also while a subgraph is open. */
export function rootOf(graph) {
  return graph?.rootGraph ?? graph;
}

/** The node of an execution id such as "5:12", or null when it is not on the canvas. */
export function findNode(root, executionId) {
  let graph = root;
  let node = null;
  for (const part of pathOf(executionId)) {
    node = graph?.getNodeById?.(part) ?? graph?.getNodeById?.(Number(part)) ?? null;
    if (!node) return null;
    graph = node.subgraph ?? null;
  }
  return node;
}

/** True when the node is of the class that ran: an id alone may belong to another workflow. */
export function isOfClass(node, classType) {
  return classType === null || (node.comfyClass ?? node.type) === classType;
}

/** The node to show for one that ran: its own, or the old group node that it was in; null for none. */
export function shownNode(root, executionId, classType) {
  const node = findNode(root, executionId);
  if (node && isOfClass(node, classType)) return node;
  const [holder, inner] = pathOf(executionId);
  const group = inner === undefined ? null : findNode(root, holder);
  return group?.type?.startsWith("workflow") ? group : null;
}

/** The figures of a run for each node on the canvas; inner nodes of several instances add up. */
export function figuresByNode(root, run) {
  const found = new Map();
  for (const [id, entry] of byCanvasNode(run)) {
    const node = findNode(root, id);
    if (!node || !isOfClass(node, entry.class_type)) continue;
    const known = found.get(node);
    found.set(node, known ? sum(known, entry) : entry);
  }
  return found;
}

function sum(one, other) {
  const peaks = [one.peak_vram_mib, other.peak_vram_mib].filter((peak) => peak !== null);
  const growths = [one.growth_mib, other.growth_mib].filter((growth) => growth !== null);
  return {
    ...one,
    seconds: one.seconds + other.seconds,
    peak_vram_mib: peaks.length ? Math.max(...peaks) : null,
    growth_mib: growths.length ? Math.max(...growths) : null,
    cached: one.cached && other.cached,
  };
}

/** Select a node and bring it into view, opening the subgraph that it is in. */
export async function showNode(canvas, node, frame) {
  if (node.graph && canvas.graph !== node.graph) {
    canvas.setGraph(node.graph);
    // The frontend first keeps the view of the graph that is left, and takes the last one of this.
    for (const turn of [frame, frame]) await turn();
    if (canvas.graph !== node.graph) return; // the user has gone on
  }
  canvas.selectItems([node]);
  canvas.centerOnNode(node);
  canvas.setDirty(true, true);
}

/** Workflows saved by newer frontends carry an id of their own; older ones share one. */
export function workflowId(root) {
  return String(root?.id ?? "");
}
