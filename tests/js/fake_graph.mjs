// As much of LiteGraph's graphs as an edit uses: nodes, links, subgraphs with inputs and outputs.

export const TYPES = {
  Loader: { outputs: ["MODEL", "CLIP"] },
  Encode: { inputs: ["clip"], outputs: ["CONDITIONING"], widgets: { text: "" } },
  Sample: { inputs: ["model", "positive"], outputs: ["LATENT"], widgets: { steps: 20 } },
  HeadroomOOMGuard: { inputs: ["model"], outputs: ["model"], widgets: { max_attempts: 8 } },
  HeadroomOffloadModel: { inputs: ["model", "after"], outputs: ["model", "after"], widgets: { to: "CPU" } },
  HeadroomCastBF16: { inputs: ["model"], outputs: ["model"], widgets: { max_attempts: 8 } },
  HeadroomPurgeVRAM: { inputs: ["model"], outputs: ["model"], widgets: { max_attempts: 8 } },
  HeadroomEncodeToCPU: { inputs: ["clip"], outputs: ["conditioning"], widgets: { text: "", cache: "off" } },
};

export function makeNode(type) {
  if (!TYPES[type]) return null;
  const { inputs = [], outputs = [], widgets = {} } = TYPES[type];
  return new Node(type, inputs, outputs, widgets);
}

class Node {
  constructor(type, inputs, outputs, widgets) {
    Object.assign(this, { id: -1, comfyClass: type, title: type, pos: [0, 0], size: [200, 100], graph: null });
    this.inputs = inputs.map((name) => ({ name, link: null }));
    this.outputs = outputs.map((name) => ({ name, type: name, links: [] }));
    this.widgets = Object.entries(widgets).map(([name, value]) => ({ name, value }));
  }

  getInputLink(index) {
    return this.graph.links.get(this.inputs[index].link) ?? null;
  }

  disconnectInput(index) {
    const link = this.getInputLink(index);
    if (!link) return;
    const out = this.graph.nodes.find((node) => node.id === link.origin_id)?.outputs[link.origin_slot];
    if (out) out.links = out.links.filter((id) => id !== link.id);
    this.graph.links.delete(link.id);
    this.inputs[index].link = null;
  }

  connect(slot, target, index) {
    if (target.graph !== this.graph) return null;
    target.disconnectInput(index);
    const link = this.graph.addLink(this.id, slot, target.id, index);
    this.outputs[slot].links.push(link.id);
    target.inputs[index].link = link.id;
    return link;
  }
}

export class Graph {
  constructor() {
    Object.assign(this, { nodes: [], links: new Map(), inputs: [], outputs: [], last: 0, lastLink: 0 });
  }

  add(node) {
    if (node.id === -1) node.id = this.last + 1;
    this.last = Math.max(this.last, node.id);
    node.graph = this;
    this.nodes.push(node);
    return node;
  }

  put(type, id, pos = [id * 300, 0]) {
    return this.add(Object.assign(makeNode(type), { id, pos, title: `my ${type}` }));
  }

  /** A node that holds `subgraph`. */
  hold(subgraph, id) {
    const node = new Node("a subgraph", subgraph.inputs.map((input) => input.name), subgraph.outputs.map((output) => output.name), {});
    subgraph.holders = [...(subgraph.holders ?? []), node];
    return this.add(Object.assign(node, { id, subgraph, pos: [id * 300, 0] }));
  }

  remove(node) {
    node.inputs.forEach((_, index) => node.disconnectInput(index));
    for (const link of [...this.links.values()].filter(({ origin_id: from }) => from === node.id)) {
      this.getNodeById(link.target_id)?.disconnectInput(link.target_slot);
    }
    this.nodes = this.nodes.filter((other) => other !== node);
    node.graph = null;
  }

  getNodeById(id) {
    return this.nodes.find((node) => node.id === id) ?? null;
  }

  updateExecutionOrder() {}

  serialize() {
    return { nodes: this.nodes.map(({ id, pos, widgets }) => ({ id, pos, widgets })), links: [...this.links.values()] };
  }

  getLink(id) {
    return this.links.get(id);
  }

  addLink(from, slot, to, index) {
    this.lastLink += 1;
    const link = { id: this.lastLink, origin_id: from, origin_slot: slot, target_id: to, target_slot: index };
    this.links.set(link.id, link);
    return link;
  }
}

export class Subgraph extends Graph {
  constructor(inputs = [], outputs = []) {
    super();
    this.inputNode = { id: -10, boundingRect: [-500, 0, 100, 100] };
    this.outputNode = { id: -20, boundingRect: [5000, 0, 100, 100] };
    for (const name of inputs) this.addInput(name, name);
    for (const name of outputs) this.addOutput(name, name);
  }

  addInput(name, type) {
    const slot = this.inputs.length;
    const connect = (input, node) => {
      const index = node.inputs.indexOf(input);
      node.disconnectInput(index);
      const link = this.addLink(-10, slot, node.id, index);
      input.link = link.id;
      return link;
    };
    this.inputs.push({ name, type, connect });
    for (const node of this.holders ?? []) node.inputs.push({ name, link: null });
    return this.inputs.at(-1);
  }

  addOutput(name, type) {
    const slot = this.outputs.length;
    const connect = (output, node) => {
      const link = this.addLink(node.id, node.outputs.indexOf(output), -20, slot);
      output.links.push(link.id);
      return link;
    };
    this.outputs.push({ name, type, connect });
    for (const node of this.holders ?? []) node.outputs.push({ name, type, links: [] });
    return this.outputs.at(-1);
  }
}

/** Every wire of a graph as "from:slot>to:input". */
export const wires = (graph) => [...graph.links.values()]
  .map((link) => `${link.origin_id}:${link.origin_slot}>${link.target_id}:${link.target_slot}`).sort();
