import assert from "node:assert/strict";
import { test } from "node:test";
import { needsOf, planText, rangeText, titlesOf } from "../../js/lib/advice.js";
import { applyEdits, checkEdit, createApplying } from "../../js/lib/applying.js";
import { isExact, usedDevices } from "../../js/lib/runs.js";
import { CannotApply, WHY } from "../../js/lib/wires.js";
import { Graph, makeNode, wires } from "./fake_graph.mjs";
import { EN, node, run, ZH } from "./fixtures.mjs";

const item = (kind, low, high, fields = {}) => ({
  id: kind, kind, text: "In English.", values: {}, saves_mib: [low, high], node_ids: [], changes_picture: false,
  cost: "seconds", edit: { steps: [] }, measured_mib: null, ...fields,
});

test("ranges are said as far as they are known", () => {
  assert.equal(rangeText([1024, 2048], EN), "1 GiB to 2 GiB");
  assert.equal(rangeText([0, 2048], EN), "up to 2 GiB");
  assert.equal(rangeText([512, 512], EN), "512 MiB");
});

test("a plan says what is done, what to expect after all of it, and whether that is enough", () => {
  const items = [item("encode_to_cpu", 1, 2, { expected_mib: [2500, 2600] }), item("oom_guard", 1, 2, { expected_mib: [1843, 2150] })];
  const needs = [3000, 3100];
  assert.equal(planText(items, needs, 2200, EN), "Encode to CPU, OOM Guard: then the run may need 1.8 GiB to 2.1 GiB instead of 2.9 GiB to 3 GiB.");
  assert.match(planText(items, needs, 100, EN), /more than asked for/);
  assert.match(planText([], needs, 4000, ZH), /已经放得下/);
  assert.match(planText([], needs, 100, EN), /nothing here can be applied/);
  const risky = [item("cast_bf16", 1, 2, { changes_picture: true, expected_mib: [1, 2] })];
  assert.match(planText(risky, needs, 2500, EN), /Changes the picture: Cast bf16/);
});

test("each kind is named once", () => {
  assert.equal(titlesOf([item("oom_guard"), item("oom_guard"), item("reserve")], EN), "OOM Guard, Reserve");
  assert.equal(titlesOf([item("oom_guard"), item("reserve")], ZH), "显存不足守护、预留");
});

test("what a run needs is its peak, and what it asked for in vain", () => {
  assert.deepEqual(needsOf(run([], { fits: { smallest_mib: [5, 450] } })), [300, 450]);
  assert.deepEqual(needsOf(run([], { peak_vram_at_most_mib: 310 })), [300, 310]);
  assert.equal(needsOf(run([], { peak_vram_mib: null })), null);
});

test("a peak is exact only when it cannot have been a hundredth more", () => {
  assert.equal(isExact({ peak_vram_mib: 100, peak_vram_at_most_mib: 101 }), true);
  assert.equal(isExact({ peak_vram_mib: 100, peak_vram_at_most_mib: 120 }), false);
  assert.equal(isExact({ peak_vram_mib: 100, peak_vram_at_most_mib: null }), false);
  const [one, other, unused] = [100, 5, null].map((peak, at) => ({ device: `cuda:${at}`, peak_vram_mib: peak }));
  assert.deepEqual(usedDevices({ devices: [one, other, unused], peak_vram_mib: 100 }), [one, other]);
  assert.equal(usedDevices(node("1")).length, 1);
});

const PROMPT = {
  1: { class_type: "Loader", inputs: {} },
  2: { class_type: "HeadroomOOMGuard", inputs: { model: ["1", 0] } },
  3: { class_type: "Sample", inputs: { model: ["2", 0] } },
};
const insert = (classType, from = ["1", 0]) => ({
  steps: [{ op: "insert", class_type: classType, from, through: "model", to: [["3", "model"]], links: {} }],
});
const classes = new Map([["1", "Loader"], ["3", "Sample"]]);
const refused = (key) => (error) => error instanceof CannotApply && error.why === WHY[key];

test("an edit fits a workflow with nodes of ours on its wires, but not twice", () => {
  checkEdit(insert("HeadroomPurgeVRAM"), PROMPT, classes);
  assert.throws(() => checkEdit(insert("HeadroomOOMGuard"), PROMPT, classes), refused("done"));
});

test("a second model on the same wire is not the first one's", () => {
  const prompt = {
    ...PROMPT, 4: { class_type: "HeadroomOffloadModel", inputs: { after: ["1", 0], model: ["8", 0] } }, 8: { class_type: "Loader", inputs: {} },
    3: { class_type: "Sample", inputs: { model: ["4", 1] } },
  };
  const offload = (model) => ({ steps: [{ ...insert("HeadroomOffloadModel").steps[0], links: { model } }] });
  checkEdit(offload(["8", 1]), prompt, classes);
  assert.throws(() => checkEdit(offload(["8", 0]), prompt, classes), refused("done"));
});

test("an edit does not fit a workflow whose nodes or wires are others now", () => {
  assert.throws(() => checkEdit(insert("HeadroomPurgeVRAM", ["1", 1]), PROMPT, classes), refused("changed"));
  assert.throws(() => checkEdit(insert("HeadroomPurgeVRAM", ["9", 0]), PROMPT, classes), refused("gone"));
  assert.throws(() => checkEdit(insert("HeadroomPurgeVRAM"), PROMPT, new Map([["3", "VAEDecode"]])), refused("changed"));
});

function page(graph) {
  const calls = [];
  const canvas = {
    graph, setDirty() {}, selectItems: (items) => calls.push(["select", ...items.map(({ id }) => id)]),
    emitBeforeChange: () => calls.push(["begin"]), emitAfterChange: () => calls.push(["end"]),
  };
  const prompt = async () => ({ 1: { class_type: "Loader", inputs: {} }, 3: { class_type: "Sample", inputs: { model: ["1", 0] } } });
  return { calls, tools: { canvas, prompt, create: makeNode, undo: async () => calls.push(["undo"]), frame: async () => {}, wait: async () => {} } };
}

function two() {
  const graph = new Graph();
  graph.put("Loader", 1).connect(0, graph.put("Sample", 3), 0);
  return graph;
}

test("several edits are one change, and the new nodes are selected", async () => {
  const graph = two();
  const { calls, tools } = page(graph);
  const offload = insert("HeadroomOffloadModel");
  await applyEdits([{ steps: [{ ...insert("HeadroomOOMGuard").steps[0], out: 0 }] }, { steps: [{ ...offload.steps[0], out: 0 }] }], classes, tools);
  assert.deepEqual(calls, [["begin"], ["end"], ["begin"], ["select", 4, 5], ["end"]]);
  assert.deepEqual(wires(graph), ["1:0>4:0", "4:0>5:0", "5:0>3:0"]);
});

test("of several edits those that are there already are left out", async () => {
  const { calls, tools } = page(two());
  const there = insert("HeadroomOOMGuard");
  const prompt = async () => PROMPT;
  await assert.rejects(applyEdits([there], classes, { ...tools, prompt }), refused("done"));
  await applyEdits([there, { steps: [{ ...insert("HeadroomPurgeVRAM").steps[0], out: 0 }] }], classes, { ...tools, prompt });
  assert.deepEqual(calls.filter(([name]) => name === "select"), [["select", 4]]);
});

test("advice on a run of another workflow is not applied to this one", async () => {
  const told = [];
  const { tools } = page(Object.assign(two(), { id: "here" }));
  const apply = createApplying({ words: () => (text) => text, notify: (...words) => told.push(words), page: () => tools });
  const advice = [{ id: "a", kind: "oom_guard", edit: { steps: [{ ...insert("HeadroomOOMGuard").steps[0], out: 0 }] } }];
  const ran = { nodes: [], workflow_id: "elsewhere" };
  await apply(advice, ran);
  assert.deepEqual(told, [["warn", "Nothing was changed", WHY.other]]);
  await apply(advice, { ...ran, workflow_id: "here" });
  assert.equal(told[1][0], "success");
});

test("an edit that fails half way is taken back and told", async () => {
  const { calls, tools } = page(two());
  const steps = [{ ...insert("HeadroomOOMGuard").steps[0], out: 0 }, { op: "set", node: "3", input: "gone", value: 1 }];
  await assert.rejects(applyEdits([{ steps }], classes, tools), refused("noInput"));
  assert.deepEqual(calls, [["begin"], ["end"], ["begin"], ["end"], ["undo"]]);
});

test("an edit that fails before it has changed anything takes back nothing of the user's", async () => {
  const { calls, tools } = page(two());
  const unknown = { ...insert("HeadroomOOMGuard").steps[0], class_type: "HeadroomGone" };
  await assert.rejects(applyEdits([{ steps: [unknown] }], classes, tools), refused("noClass"));
  assert.deepEqual(calls.filter(([name]) => name === "undo"), []);
});

test("a workflow of which the page makes no prompt is not changed, and the user is told why", async ({ mock }) => {
  const logged = mock.method(console, "error", () => {});
  const told = [];
  const prompt = () => Promise.reject(new Error("a pack of the page failed"));
  const apply = createApplying({ words: () => (text) => text, notify: (...words) => told.push(words), page: () => ({ prompt }) });
  await apply([], { nodes: [] });
  assert.deepEqual(told, [["warn", "Nothing was changed", "a pack of the page failed"]]);
  assert.equal(logged.mock.callCount(), 1);
});

test("an edit that does not fit changes nothing at all", async () => {
  const { calls, tools } = page(two());
  await assert.rejects(applyEdits([insert("HeadroomOOMGuard", ["1", 1])], classes, tools), refused("changed"));
  assert.deepEqual(calls, []);
});
