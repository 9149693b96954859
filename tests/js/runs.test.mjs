import assert from "node:assert/strict";
import { test } from "node:test";
import {
  byCanvasNode, byDisplayNode, COLUMNS, firstColumn, growthOf, isRunning, namesOf, sortNodes, usedColumns,
  withGuardsNamed,
} from "../../js/lib/runs.js";
import { loopTexts } from "../../js/lib/happened.js";
import { cachedNode, EN, node, run, ZH } from "./fixtures.mjs";

const ids = (nodes) => nodes.map((each) => each.node_id).join("");

test("nodes that a node expanded to count for the node on the canvas", () => {
  const entries = byDisplayNode(
    run([
      node("5", { seconds: 1, peak_vram_mib: 100, class_type: "Loop" }),
      node("5.0.0.2", { display_node_id: "5", seconds: 2, peak_vram_mib: 900 }),
      node("5.0.0.3", { display_node_id: "5", seconds: 0.5, peak_vram_mib: null }),
    ]),
  );
  assert.deepEqual([...entries], [
    ["5", { seconds: 3.5, peak_vram_mib: 900, growth_mib: 800, cached: false, class_type: "Loop" }],
  ]);
});

test("the class of a canvas node is its own, also when an expanded node came first", () => {
  const entries = byDisplayNode(
    run([node("5.0.1", { display_node_id: "5" }), node("5", { class_type: "Loop" })]),
  );
  assert.equal(entries.get("5").class_type, "Loop");
});

test("a subgraph node sums up the nodes inside it, at every depth", () => {
  const entries = byCanvasNode(
    run([node("7:2", { seconds: 1 }), node("7:3:4", { seconds: 2, peak_vram_mib: 800 })]),
  );
  assert.deepEqual(
    [...entries].map(([id, entry]) => [id, entry.seconds, entry.peak_vram_mib]),
    [["7:2", 1, 300], ["7:3:4", 2, 800], ["7", 3, 800], ["7:3", 2, 800]],
  );
});

test("a node is cached only when all of it was cached", () => {
  const entries = byCanvasNode(run([cachedNode("7:2"), node("7:3"), cachedNode("8")]));
  assert.equal(entries.get("7").cached, false);
  assert.equal(entries.get("7:2").cached, true);
  assert.equal(entries.get("8").cached, true);
});

test("nodes sort by peak with unknown ones last in both directions", () => {
  const nodes = [
    node("1", { peak_vram_mib: 5 }), cachedNode("2"), node("3", { peak_vram_mib: 9 }),
    node("4", { peak_vram_mib: 5 }),
  ];
  assert.equal(ids(sortNodes(nodes, "peak", true)), "3142");
  assert.equal(ids(sortNodes(nodes, "peak", false)), "1432");
  assert.equal(ids(nodes), "1234");
});

test("titles sort as people count", () => {
  const nodes = [node("1", { title: "Load 10" }), node("2", { title: "load 2" })];
  assert.equal(ids(sortNodes(nodes, "title", false)), "21");
});

test("a server without a GPU has no columns for VRAM and sorts by time first", () => {
  const none = { vram_before_mib: null, vram_after_mib: null, peak_vram_mib: null };
  const onCpu = run([node("1", none), cachedNode("2")]);
  assert.deepEqual(usedColumns(onCpu), ["title", "ram", "seconds"]);
  assert.equal(firstColumn(onCpu), "seconds");
  assert.equal(firstColumn(run([node("1")])), "peak");
});

test("differences are after minus before, and unknown when either is", () => {
  assert.equal(COLUMNS.vram(node("1")), 100);
  assert.equal(COLUMNS.ram(node("1", { rss_before_mib: null })), null);
  assert.equal(COLUMNS.seconds(cachedNode("1")), null);
});

test("a node's growth is its peak minus what was in use before it, unknown when either is", () => {
  assert.equal(growthOf(node("1")), 200);
  assert.equal(growthOf(cachedNode("1")), null);
});

test("nodes with equal titles are told apart by their number", () => {
  const names = namesOf(run([node("3", { title: "Prompt" }), node("12", { title: "Prompt" }), node("4", { title: "" })]));
  assert.deepEqual([...names], [["3", "Prompt #3"], ["12", "Prompt #12"], ["4", "KSampler"]]);
});

test("only a run with that status is still running", () => {
  assert.deepEqual(["running", "success", "error"].map((status) => isRunning({ status })), [true, false, false]);
});

test("guards that the server put in are called as the language calls them, by the output they guard, and lead to its node", () => {
  const found = withGuardsNamed(run([node("headroom-guard-5:1-0", { title: "OOM Guard" }), node("4", { title: "KSampler" })]), ZH);
  assert.deepEqual(found.nodes.map(({ title }) => title), ["显存不足守护 #5:1.1", "KSampler"]);
  assert.equal(found.nodes[0].display_node_id, "5:1");
});

test("a run with a loop says what grew with each turn and what was not recorded", () => {
  const looped = run([], {
    grows: [{ what: "RAM", mib_a_turn: 7, turns: 200, display_node_id: "5", title: "Collect" }],
    left_out: [{ display_node_id: "3", title: "KSampler", count: 50 }, { display_node_id: "5", title: "Collect", count: 51 }],
  });
  assert.deepEqual(loopTexts(looped, EN), [
    "RAM grows by 7 MiB with each turn of a loop (200 turns), most in Collect",
    "Collect: runs that are not in the record: 51",
    "KSampler: runs that are not in the record: 50",
  ]);
  assert.equal(loopTexts(looped, ZH)[0], "循环每一轮内存增加 7 MiB（共 200 轮），大部分在 Collect");
  assert.deepEqual(loopTexts(run([]), EN), []);
});
