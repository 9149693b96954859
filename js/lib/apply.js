// Puts an edit of the advice into the graph on the canvas, by LiteGraph's own methods.
import { findNode, isOfClass } from "./graph.js";
import { freePlace, overlap } from "./place.js";
import { pathOf } from "./runs.js";
import { CannotApply, endsOf, inputOf, leadTo, linkOf, outputSource, sourceOf, WHY } from "./wires.js";

const TITLE = 30;
const DISTANCE = 60;
/** What of a node's looks and state is the user's. */
const KEPT = ["title", "color", "bgcolor", "mode"];

/**
 * Apply the steps of `edit` to the graph `root` and return the new nodes. `create(class)` makes a
 * node, null for a class that the page does not know; `growth` is by how much it may grow in height
 * when it is drawn. Raises CannotApply; what was done until then stays, so that one who calls this
 * undoes it.
 */
export function applyEdit(root, edit, create, growth = 1) {
  const doing = { root, create, growth, refs: new Map() };
  return edit.steps.flatMap((step) => STEPS[step.op](step, doing));
}

const STEPS = { insert, replace, set };

function nodeOf({ root, refs }, id) {
  const node = refs.get(id) ?? findNode(root, id);
  if (!node) throw new CannotApply(WHY.gone, { id });
  return node;
}

function makeNode({ create }, classType) {
  const node = create(classType);
  if (!node) throw new CannotApply(WHY.noClass, { node: classType });
  return node;
}

/**
 * Give a node these values once it is in a graph: before, it may share those of another new node,
 * since newer frontends keep the values of widgets by the node's id.
 */
function setWidgets(node, values) {
  for (const [name, value] of Object.entries(values ?? {})) setWidget(node, name, value);
}

function setWidget(node, name, value) {
  const widget = node.widgets?.find((candidate) => candidate.name === name);
  if (!widget) throw new CannotApply(WHY.noInput, { node: node.title, input: name });
  if (widget.value !== value) widget.value = value;
}

/** A new node between an output and some inputs: one in each graph, and for each node of ours that only some of them come through. */
function insert(step, doing) {
  const targets = step.to.map(([id, name]) => {
    const node = nodeOf(doing, id);
    const index = inputOf(node, name);
    return { id, node, index, wired: sourceOf(node, index) };
  });
  const groups = bySource(targets);
  if (!groups.length) groups.push([]);
  return groups.map((group) => insertOnce(step, group, doing));
}

/** Targets by the graph they are in and the output that feeds them; one that several instances of a subgraph share comes once. */
function bySource(targets) {
  const groups = [];
  for (const target of targets) {
    const isFedAlike = ({ node, wired }) => node.graph === target.node.graph
      && ["node", "slot", "input"].every((part) => wired?.[part] === target.wired?.[part]);
    const group = groups.find((one) => isFedAlike(one[0]));
    if (!group) groups.push([target]);
    else if (!group.some(({ node, index }) => node === target.node && index === target.index)) group.push(target);
  }
  return groups;
}

function insertOnce(step, targets, doing) {
  const path = pathOf(targets[0]?.id ?? step.from[0]).slice(0, -1);
  // The prompt has this connection, so where there is no wire a pack makes it (Use Everywhere).
  const source = targets[0]?.wired ?? further(step.from, path, doing);
  const graph = targets[0]?.node.graph ?? source.node.graph;
  const node = makeNode(doing, step.class_type);
  node.pos = placeBetween(graph, source.node, targets[0]?.node, grown(node.size, doing));
  graph.add(node);
  setWidgets(node, step.inputs);
  if (step.ref) doing.refs.set(`ref:${step.ref}`, node);
  source.connect(node, inputOf(node, step.through));
  for (const target of targets) outputSource(node, step.out ?? 0).connect(target.node, target.index);
  for (const [name, link] of Object.entries(step.links ?? {})) further(link, path, doing).connect(node, inputOf(node, name));
  return node;
}

/** An output as a source, led into the subgraph at `path` where needed. */
function further([id, slot], path, { root, refs }) {
  const made = refs.get(id);
  if (made) return outputSource(made, slot);
  nodeOf({ root, refs }, id);
  return leadTo(root, id, slot, path);
}

/** Another node in the place of one, with its id, its title, its wires and its values. */
function replace(step, doing) {
  const old = nodeOf(doing, step.node);
  if (isOfClass(old, step.class_type)) return []; // another instance of the same subgraph
  const { graph } = old;
  const node = makeNode(doing, step.class_type);
  const kept = Object.entries(step.keep ?? {}).map(([from, to]) => ({ to, ...wireAndValue(old, from) }));
  const outputs = Object.entries(step.outputs ?? {}).map(([from, to]) => [endsOf(old, Number(from)), to]);
  const shown = shownValues(doing.root, graph);
  for (const key of KEPT) if (old[key] !== undefined) node[key] = old[key];
  graph.remove(old);
  Object.assign(node, { id: old.id, pos: placeOf(graph, old, grown(node.size, doing)) });
  graph.add(node);
  for (const { to, value } of kept) if (value !== undefined && node.widgets?.some(({ name }) => name === to)) setWidget(node, to, value);
  setWidgets(node, step.inputs);
  for (const { to, source } of kept) source?.connect(node, inputOf(node, to));
  for (const [ends, slot] of outputs) for (const end of ends) end.connect(node, slot);
  for (const [holder, name, value] of shown) {
    const widget = holder.widgets?.find((candidate) => candidate.name === name);
    if (widget && widget.value !== value) widget.value = value;
  }
  return [node];
}

/** What each instance of a subgraph shows: newer frontends forget it when the node inside goes. */
function shownValues(root, subgraph) {
  const holders = [root, ...(root.subgraphs?.values() ?? [])].flatMap((graph) => graph.nodes.filter((node) => node.subgraph === subgraph));
  return holders.flatMap((holder) => (holder.widgets ?? []).map(({ name, value }) => [holder, name, value]));
}

/** The wire in a node's input, and the value of its widget: it has at least one of the two. */
function wireAndValue(node, name) {
  const index = (node.inputs ?? []).findIndex((input) => input.name === name);
  const widget = node.widgets?.find((candidate) => candidate.name === name);
  if (index < 0 && !widget) throw new CannotApply(WHY.noInput, { node: node.title, input: name });
  return { value: widget?.value, source: index < 0 ? null : sourceOf(node, index) };
}

/** Another value of a widget; a wire that was in its input is taken out. */
function set(step, doing) {
  const node = nodeOf(doing, step.node);
  setWidget(node, step.input, step.value);
  const index = (node.inputs ?? []).findIndex((input) => input.name === step.input);
  if (index >= 0 && linkOf(node, index)) node.disconnectInput(index);
  return [];
}

/** Move new nodes that have grown into others, as they do in Nodes 2.0 when they are first drawn. */
export function keepApart(nodes) {
  for (const node of nodes) {
    const boxes = boxesOf(node.graph, node);
    if (!boxes.some((box) => overlap(boxOf(node), box))) continue;
    const [left, top] = freePlace(boxOf(node), boxOf(node).slice(2), boxes);
    node.pos = [left, top + TITLE];
  }
}

/** What a node covers, its title included. */
export function boxOf({ pos, size }) {
  return [pos[0], pos[1] - TITLE, size[0], size[1] + TITLE];
}

function boxesOf(graph, except = null) {
  const ends = [graph.inputNode, graph.outputNode].map((end) => end?.boundingRect).filter(Boolean);
  return [...graph.nodes.filter((node) => node !== except).map(boxOf), ...ends, ...(graph.groups ?? []).flatMap(frameOf)];
}

/** The parts of a group that a new node must not cover: its title and its edges. */
function frameOf({ pos: [x, y], size: [width, height], titleHeight = TITLE }) {
  return [[x, y, width, titleHeight], [x, y, 0, height], [x + width, y, 0, height], [x, y + height, width, 0]];
}

/** @returns {[number, number]} */
const grown = ([width, height], { growth }) => [width, height * growth];

/** Half way between two nodes, or as near to that as there is room. */
function placeBetween(graph, left, right, [width, height]) {
  const size = [width, height + TITLE];
  const x = left && right
    ? (left.pos[0] + left.size[0] + right.pos[0] - width) / 2
    : (right ? right.pos[0] - width - DISTANCE : left.pos[0] + left.size[0] + DISTANCE);
  const y = left && right ? (left.pos[1] + right.pos[1]) / 2 : (left ?? right).pos[1];
  const [at, top] = freePlace([x, y - TITLE], size, boxesOf(graph));
  return [at, top + TITLE];
}

/** The place of the node that was there, unless the new one needs more room than there is. */
function placeOf(graph, old, [width, height]) {
  const boxes = boxesOf(graph).filter((box) => !overlap(boxOf(old), box));
  const wanted = [old.pos[0], old.pos[1] - TITLE];
  const size = [width, height + TITLE];
  if (!boxes.some((box) => overlap([...wanted, ...size], box))) return [...old.pos];
  const [left, top] = freePlace(wanted, size, boxes);
  return [left, top + TITLE];
}
