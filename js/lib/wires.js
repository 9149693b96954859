// Wires of LiteGraph's graphs, also where they cross the edge of a subgraph. Sources are objects
// with `connect(node, index)`: a node's output, or an input of the subgraph that the wire is in.
/** @typedef {{ node?: any, slot?: number, input?: any, type: any, name: any, connect: (to: any, index: number) => void }} Source */
import { findNode } from "./graph.js";
import { pathOf } from "./runs.js";
import { phrase } from "./say.js";

/** Why an edit does not fit the canvas. */
export const WHY = {
  gone: phrase("Node #{id} is not on this canvas, or was deleted."),
  changed: phrase("The workflow has changed at {node} since this run: queue it again for new advice."),
  noInput: phrase("Node {node} has no input {input} that fits."),
  noClass: phrase("This page does not know the node {node}: reload it."),
  done: phrase("This is in the workflow already."),
  other: phrase("This run was of another workflow: open that one, or queue this one for advice of its own."),
};

/** An edit that does not fit the canvas; `why` is the sentence to say, `values` fills it. */
export class CannotApply extends Error {
  constructor(why, values) {
    super(why);
    this.why = why;
    this.values = values;
  }
}

/** The index of an input by name; CannotApply where the node has none. */
export function inputOf(node, name) {
  const index = (node.inputs ?? []).findIndex((input) => input.name === name);
  if (index < 0) throw new CannotApply(WHY.noInput, { node: node.title, input: name });
  return index;
}

/** The wire in an input; null for none. A subgraph's node answers `getInputLink` with one inside. */
export const linkOf = (node, index) => node.graph.getLink(node.inputs[index].link) ?? null;

/** Where the wire that is now in this input comes from, its reroutes included; null for none. */
export function sourceOf(node, index) {
  const link = linkOf(node, index);
  return link ? linkSource(node.graph, link) : null;
}

function linkSource(graph, link) {
  if (link.origin_id === graph.inputNode?.id) return subgraphInput(graph, link.origin_slot, link.parentId);
  return outputSource(graph.getNodeById(link.origin_id), link.origin_slot, link.parentId);
}

/**
 * Output `slot` of a node as a source.
 * @returns {Source}
 */
export function outputSource(node, slot, reroute) {
  return {
    node, slot, type: node.outputs[slot]?.type, name: node.outputs[slot]?.name,
    connect: (to, index) => made(node.connect(slot, to, index, reroute), to, index),
  };
}

/** @returns {Source} */
function subgraphInput(graph, slot, reroute) {
  const input = graph.inputs[slot];
  return {
    input, type: input.type, name: input.name,
    connect: (to, index) => made(input.connect(to.inputs[index], to, reroute), to, index),
  };
}

function made(link, to, index) {
  if (!link) throw new CannotApply(WHY.noInput, { node: to.title, input: to.inputs[index]?.name });
}

/** The inputs that an output's wires end in: [{connect(node, slot)}], outputs of a subgraph too. */
export function endsOf(node, slot) {
  const { graph } = node;
  return (node.outputs[slot]?.links ?? []).map((id) => graph.getLink(id)).map((link) => {
    const { target_id: target, target_slot: index, parentId } = link;
    if (target === graph.outputNode?.id) {
      return { connect: (from, out) => graph.outputs[index].connect(from.outputs[out], from, parentId) };
    }
    return { connect: (from, out) => outputSource(from, out, parentId).connect(graph.getNodeById(target), index) };
  });
}

/** The graph that the nodes at this path of subgraph nodes are in. */
const graphAt = (root, path) => (path.length ? findNode(root, path.join(":")).subgraph : root);

/** Output `slot` of the node `id` as a source inside the subgraph at `path`, led there where needed. */
export function leadTo(root, id, slot, path) {
  const from = pathOf(id).slice(0, -1);
  let shared = 0;
  while (shared < Math.min(from.length, path.length) && from[shared] === path[shared]) shared += 1;
  let source = outputSource(findNode(root, id), slot);
  for (let depth = from.length; depth > shared; depth -= 1) source = leadOut(root, from.slice(0, depth), source);
  for (let depth = shared; depth < path.length; depth += 1) source = leadIn(root, path.slice(0, depth + 1), source);
  return source;
}

function leadOut(root, path, source) {
  const graph = graphAt(root, path);
  const outer = findNode(root, path.join(":"));
  const links = (source.node.outputs[source.slot].links ?? []).map((id) => graph.getLink(id));
  const known = links.find((link) => link.target_id === graph.outputNode.id);
  if (known) return outputSource(outer, known.target_slot);
  const output = graph.addOutput(source.name, source.type);
  output.connect(source.node.outputs[source.slot], source.node);
  return outputSource(outer, graph.outputs.indexOf(output));
}

function leadIn(root, path, source) {
  const outer = findNode(root, path.join(":"));
  const same = (known) => known && known.node === source.node && known.slot === source.slot && known.input === source.input;
  const index = outer.inputs.findIndex((_, at) => same(sourceOf(outer, at)));
  if (index >= 0) return subgraphInput(outer.subgraph, index);
  outer.subgraph.addInput(source.name, source.type);
  const instances = outer.graph.nodes.filter((node) => node.subgraph === outer.subgraph);
  for (const node of instances) source.connect(node, node.inputs.length - 1);
  return subgraphInput(outer.subgraph, outer.subgraph.inputs.length - 1);
}
