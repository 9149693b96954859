import assert from "node:assert/strict";
import { test } from "node:test";
import { applyEdit, boxOf, keepApart } from "../../js/lib/apply.js";
import { freePlace, overlap } from "../../js/lib/place.js";
import { CannotApply } from "../../js/lib/wires.js";
import { Graph, makeNode, Subgraph, wires } from "./fake_graph.mjs";

/** Loader 1, encoder 2, sampler 3, as most workflows begin. */
function simple() {
  const graph = new Graph();
  const [loader, encode, sample] = [graph.put("Loader", 1), graph.put("Encode", 2), graph.put("Sample", 3)];
  encode.widgets[0].value = "a lake";
  loader.connect(1, encode, 0);
  loader.connect(0, sample, 0);
  encode.connect(0, sample, 1);
  return graph;
}

const guard = (to, from = ["1", 0]) => ({
  op: "insert", ref: "a", class_type: "HeadroomOOMGuard", inputs: { max_attempts: 3 }, from, through: "model", out: 0, to, links: {},
});
const toCpu = (node) => ({
  op: "replace", node, class_type: "HeadroomEncodeToCPU", keep: { clip: "clip", text: "text" }, inputs: { cache: "disk" }, outputs: { 0: 0 },
});
const apply = (graph, ...steps) => applyEdit(graph, { steps }, makeNode);
const values = (node) => Object.fromEntries(node.widgets.map(({ name, value }) => [name, value]));

test("a new node stands between an output and the inputs it fed, with its values", () => {
  const graph = simple();
  const [made] = apply(graph, guard([["3", "model"]]));
  assert.deepEqual(values(made), { max_attempts: 3 });
  assert.deepEqual(wires(graph), ["1:0>4:0", "1:1>2:0", "2:0>3:1", "4:0>3:0"]);
});

test("a second node goes behind the first on the same wire", () => {
  const graph = simple();
  apply(graph, guard([["3", "model"]]));
  apply(graph, guard([["3", "model"]]));
  assert.deepEqual(wires(graph), ["1:0>4:0", "1:1>2:0", "2:0>3:1", "4:0>5:0", "5:0>3:0"]);
});

test("an input that comes through a node of ours keeps it, and one that does not gets none", () => {
  const graph = simple();
  graph.getNodeById(1).connect(0, graph.put("Sample", 5), 0);
  apply(graph, { ...guard([["3", "model"]]), class_type: "HeadroomCastBF16" });
  apply(graph, guard([["3", "model"], ["5", "model"]]));
  assert.deepEqual(wires(graph), ["1:0>6:0", "1:0>8:0", "1:1>2:0", "2:0>3:1", "6:0>7:0", "7:0>3:0", "8:0>5:0"]);
});

test("a replaced node keeps its id, place, title, values and wires", () => {
  const graph = simple();
  const old = graph.getNodeById(2);
  const [made] = apply(graph, toCpu("2"));
  assert.deepEqual([made.id, made.title, made.pos], [2, "my Encode", old.pos]);
  assert.deepEqual(values(made), { text: "a lake", cache: "disk" });
  assert.deepEqual(wires(graph), ["1:0>3:0", "1:1>2:0", "2:0>3:1"]);
});

test("further inputs are wired, from nodes of the same edit too", () => {
  const graph = simple();
  const offload = { ...guard([["2", "clip"]], ["1", 1]), class_type: "HeadroomOffloadModel", inputs: {} };
  apply(graph, offload, { ...offload, ref: "b", from: ["1", 0], to: [["3", "model"]], links: { after: ["ref:a", 1] } });
  assert.ok(wires(graph).includes("4:1>5:1"));
});

test("a value is set, and a wire in its input taken out", () => {
  const graph = simple();
  assert.deepEqual(apply(graph, { op: "set", node: "3", input: "steps", value: 4 }), []);
  assert.deepEqual(values(graph.getNodeById(3)), { steps: 4 });
});

test("a new node lies on no title of a group and across no edge of one", () => {
  for (const [x, y] of [[-40, -80], [150, -200], [300, -40], [210, -95], [-500, -300]]) {
    const graph = simple();
    graph.groups = [{ pos: [x, y], size: [700, 400], titleHeight: 34 }];
    const [made] = apply(graph, guard([["3", "model"]]));
    const box = boxOf(made);
    const edges = [[x, y, 700, 34], [x, y, 0, 400], [x + 700, y, 0, 400], [x, y + 400, 700, 0]];
    for (const taken of [...edges, ...graph.nodes.filter((node) => node !== made).map(boxOf)]) assert.ok(!overlap(box, taken));
  }
});

test("a replaced node stays where it was, also where that is across a group's edge", () => {
  const graph = simple();
  const { pos } = graph.getNodeById(2);
  graph.groups = [{ pos: [pos[0] - 20, pos[1] - 10], size: [100, 90] }];
  assert.deepEqual(apply(graph, toCpu("2"))[0].pos, pos);
});

test("the user's other nodes stay where and as they are", () => {
  const graph = simple();
  const before = graph.nodes.map(({ id, pos, title }) => JSON.stringify([id, pos, title]));
  apply(graph, guard([["3", "model"]]), toCpu("2"));
  const after = graph.nodes.map(({ id, pos, title }) => JSON.stringify([id, pos, title]));
  assert.ok(before.every((each) => after.includes(each)));
});

/** Subgraph 5 holds sampler 3 and its wire from outside; `count` nodes hold the same one. */
function nested(count = 1) {
  const inner = new Subgraph(["model"], ["LATENT"]);
  const sample = inner.put("Sample", 3);
  inner.inputs[0].connect(sample.inputs[0], sample);
  inner.outputs[0].connect(sample.outputs[0], sample);
  const root = new Graph();
  const loader = root.put("Loader", 1);
  for (let at = 0; at < count; at += 1) loader.connect(0, root.hold(inner, 5 + at), 0);
  return { root, inner };
}

test("in a subgraph the new node stands inside, on the wire that comes in", () => {
  const { root, inner } = nested();
  apply(root, guard([["5:3", "model"]]));
  assert.deepEqual(wires(inner), ["-10:0>4:0", "3:0>-20:0", "4:0>3:0"]);
  assert.deepEqual(wires(root), ["1:0>5:0"]);
});

test("what several instances of a subgraph share is changed once", () => {
  const { root, inner } = nested(2);
  assert.equal(apply(root, guard([["5:3", "model"], ["6:3", "model"]])).length, 1);
  assert.equal(inner.nodes.length, 2);
});

test("a further input from outside is led into the subgraph, and out of one", () => {
  const { root, inner } = nested();
  const offload = { ...guard([["5:3", "model"]]), class_type: "HeadroomOffloadModel", inputs: {}, links: { after: ["1", 1] } };
  apply(root, offload);
  assert.deepEqual(wires(root), ["1:0>5:0", "1:1>5:1"]);
  assert.ok(wires(inner).includes("-10:1>4:1"));
  const after = root.put("Sample", 9);
  root.getNodeById(1).connect(0, after, 0);
  apply(root, { ...offload, to: [["9", "model"]], links: { after: ["5:3", 0] } });
  assert.ok(wires(root).includes("5:0>10:1"));
});

test("a node in a subgraph that several instances share is replaced once", () => {
  const inner = new Subgraph(["clip"]);
  inner.inputs[0].connect(inner.put("Encode", 2).inputs[0], inner.getNodeById(2));
  const root = new Graph();
  for (const id of [5, 6]) root.hold(inner, id);
  const made = apply(root, toCpu("5:2"), toCpu("6:2"));
  assert.deepEqual(made, inner.nodes);
});

test("what the instances of a subgraph show is there after a node inside was replaced", () => {
  const inner = new Subgraph(["clip"]);
  inner.inputs[0].connect(inner.put("Encode", 2).inputs[0], inner.getNodeById(2));
  const root = new Graph();
  const shown = ["a cat", "a dog"].map((value, at) => {
    const holder = root.hold(inner, 5 + at);
    holder.widgets.push({ name: "text", value });
    return holder.widgets[0];
  });
  const { remove } = inner;
  inner.remove = (node) => {
    remove.call(inner, node);
    for (const widget of shown) widget.value = "forgotten";
  };
  apply(root, toCpu("5:2"));
  assert.deepEqual(shown.map(({ value }) => value), ["a cat", "a dog"]);
});

test("a new node gets its values once it is in a graph", () => {
  const create = (type) => {
    const node = makeNode(type);
    for (const widget of node.widgets) {
      let { value } = widget;
      Object.defineProperty(widget, "value", { get: () => value, set: (next) => { assert.ok(node.graph); value = next; } });
    }
    return node;
  };
  const made = applyEdit(simple(), { steps: [guard([["3", "model"]]), toCpu("2")] }, create);
  assert.deepEqual(made.map(values), [{ max_attempts: 3 }, { text: "a lake", cache: "disk" }]);
});

test("what has its value already is not set: beside an old Impact Pack no switch can be", () => {
  const create = (type) => {
    const node = makeNode(type);
    for (const widget of node.widgets) Object.defineProperty(widget, "value", { get: () => 8, set: assert.fail });
    return node;
  };
  const [made] = applyEdit(simple(), { steps: [{ ...guard([["3", "model"]]), inputs: { max_attempts: 8 } }] }, create);
  assert.deepEqual(values(made), { max_attempts: 8 });
});

test("an input that a pack gives its value without a wire gets its wires", () => {
  const graph = new Graph();
  graph.put("Loader", 1);
  graph.put("Sample", 3);
  apply(graph, guard([["3", "model"]]));
  assert.deepEqual(wires(graph), ["1:0>4:0", "4:0>3:0"]);
});

test("a further input is led into every instance of a subgraph, none of which would run without", () => {
  const { root } = nested(2);
  apply(root, { ...guard([["6:3", "model"]]), class_type: "HeadroomOffloadModel", inputs: {}, links: { after: ["1", 1] } });
  assert.deepEqual(wires(root), ["1:0>5:0", "1:0>6:0", "1:1>5:1", "1:1>6:1"]);
});

test("an output of a subgraph follows the node that took the place of its own", () => {
  const inner = new Subgraph(["clip"], ["CONDITIONING"]);
  const encode = inner.put("Encode", 2);
  inner.inputs[0].connect(encode.inputs[0], encode);
  inner.outputs[0].connect(encode.outputs[0], encode);
  const root = new Graph();
  root.hold(inner, 5);
  inner.remove = function remove(node) {
    for (const link of [...this.links.values()]) if ([link.origin_id, link.target_id].includes(node.id)) this.links.delete(link.id);
    this.nodes = this.nodes.filter((other) => other !== node);
  };
  apply(root, toCpu("5:2"));
  assert.deepEqual(wires(inner), ["-10:0>2:0", "2:0>-20:0"]);
});

for (const [name, step] of Object.entries({
  "a node that is gone": guard([["99", "model"]]),
  "an input that a node has not": guard([["3", "vae"]]),
  "a class that the page does not know": { ...guard([["3", "model"]]), class_type: "Gone" },
  "an input without a wire": { ...guard([["3", "model"]]), to: [["1", "model"]] },
})) {
  test(`${name} is refused in words`, () => {
    assert.throws(() => apply(simple(), step), (error) => error instanceof CannotApply && Boolean(error.why));
  });
}

test("new nodes cover nobody, whatever stands there", () => {
  const graph = simple();
  for (let at = 0; at < 12; at += 1) graph.put("Loader", 20 + at, [(at % 4) * 230, Math.floor(at / 4) * 150]);
  const [made] = apply(graph, guard([["3", "model"]]));
  for (const other of graph.nodes.filter((node) => node !== made)) assert.ok(!overlap(boxOf(made), boxOf(other)));
  made.size = [900, 600];
  keepApart([made]);
  for (const other of graph.nodes.filter((node) => node !== made)) assert.ok(!overlap(boxOf(made), boxOf(other)));
});

test("the free place is the one that was wanted where nothing is in the way, else the nearest", () => {
  assert.deepEqual(freePlace([10, 20], [100, 50], [], 10), [10, 20]);
  assert.deepEqual(freePlace([0, 0], [100, 50], [[0, 0, 300, 60]], 10), [0, -60]);
  assert.deepEqual(freePlace([190, 20], [100, 50], [[0, 0, 200, 600]], 10), [210, 20]);
});
