import assert from "node:assert/strict";
import { test } from "node:test";
import { createBadges } from "../../js/lib/badges.js";
import { figuresByNode, findNode, rootOf, shownNode, showNode } from "../../js/lib/graph.js";
import { EN, cachedNode, node, run } from "./fixtures.mjs";

function graph(nodes, id = "w1") {
  const made = { id, getNodeById: (key) => nodes.find((each) => each.id === key) ?? null };
  for (const each of nodes) each.graph = made;
  return made;
}

const sampler = () => ({ id: 3, comfyClass: "KSampler" });

test("an execution id leads through subgraphs to its node", () => {
  const inner = { id: 12, comfyClass: "KSampler" };
  const outer = { id: 5, comfyClass: "uuid", subgraph: graph([inner]) };
  const root = graph([outer, sampler()]);
  assert.equal(findNode(root, "5:12"), inner);
  assert.equal(findNode(root, "5"), outer);
  assert.equal(findNode(root, "3:12"), null);
  assert.equal(findNode(root, "99"), null);
});

test("of a node that ran its own is shown, or the old group node that it was in, and none of another class", () => {
  const group = { id: 8, type: "workflow>group" };
  const own = sampler();
  const root = graph([group, own]);
  assert.equal(shownNode(root, "8:2", "KSampler"), group);
  assert.equal(shownNode(root, "3", "KSampler"), own);
  assert.equal(shownNode(root, "3", "VAEDecode"), null);
  assert.equal(shownNode(root, "3:2", "KSampler"), null);
});

test("ids that are texts are found too", () => {
  const named = { id: "abc", comfyClass: "KSampler" };
  assert.equal(findNode(graph([named]), "abc"), named);
});

test("a node of another class with the same id gets no figures", () => {
  const other = { id: 3, comfyClass: "VAEDecode" };
  assert.equal(figuresByNode(graph([other]), run([node("3")])).size, 0);
});

test("instances of one subgraph add up on their shared inner node", () => {
  const inner = { id: 12, comfyClass: "KSampler" };
  const shared = graph([inner]);
  const root = graph([{ id: 5, subgraph: shared }, { id: 6, subgraph: shared }]);
  const figures = figuresByNode(root, run([node("5:12", { seconds: 1 }), node("6:12", { seconds: 2, peak_vram_mib: 700 })]));
  assert.deepEqual([figures.get(inner).seconds, figures.get(inner).peak_vram_mib], [3, 700]);
});

test("the root is found while a subgraph is open", () => {
  const root = {};
  assert.equal(rootOf({ rootGraph: root }), root);
  assert.equal(rootOf(root), root);
  assert.equal(rootOf(undefined), undefined);
});

test("showing a node opens its subgraph, selects it alone and centres it once the frontend has put its own view of it back", async () => {
  const inner = { graph: { name: "inner" } };
  const calls = [];
  const canvas = {
    graph: {},
    setGraph: (to) => { canvas.graph = to; calls.push(["open", to.name]); },
    selectItems: (items) => calls.push(["select", items.length === 1 && items[0] === inner]),
    centerOnNode: (which) => calls.push(["centre", which === inner]),
    setDirty: () => calls.push(["draw"]),
  };
  await showNode(canvas, inner, async () => calls.push(["frame"]));
  assert.deepEqual(calls.splice(0), [["open", "inner"], ["frame"], ["frame"], ["select", true], ["centre", true], ["draw"]]);
  canvas.graph = {};
  await showNode(canvas, inner, async () => { canvas.graph = {}; });
  assert.deepEqual(calls, [["open", "inner"]]);
});

function badgesOn(state) {
  return createBadges({
    room: () => Infinity,
    graph: () => state.graph,
    path: () => state.path ?? "",
    shown: () => state.shown,
    words: () => EN,
    redraw: () => { state.drawn += 1; },
  });
}

test("a badge appears with the run and survives a reload of the workflow", () => {
  const first = sampler();
  const state = { graph: graph([first]), shown: true, drawn: 0 };
  const badges = badgesOn(state);
  assert.equal(badges.of(first).text, "");
  badges.add(run([node("3", { peak_vram_mib: 1228.8, vram_before_mib: 928.8, seconds: 3.4 })]));
  assert.equal(badges.of(first).text, "+300 MiB, 1.2 GiB in all · 3.4 s");
  const again = sampler();
  state.graph = graph([again]);
  badges.update();
  assert.equal(badges.of(again).text, "+300 MiB, 1.2 GiB in all · 3.4 s");
  assert.equal(state.drawn, 2);
});

test("badges of one workflow do not appear in another", () => {
  const mine = sampler();
  const other = sampler();
  const state = { graph: graph([mine], "w1"), shown: true, drawn: 0 };
  const badges = badgesOn(state);
  const key = badges.key();
  state.graph = graph([other], "w2");
  badges.add(run([node("3")]), key);
  assert.equal(badges.of(other).text, "");
  state.graph = graph([mine], "w1");
  badges.update();
  assert.notEqual(badges.of(mine).text, "");
});

test("a run belongs to the workflow that it was queued from, also when another one is shown as it begins", () => {
  const [mine, other] = [sampler(), sampler()];
  const state = { graph: graph([other], "w2"), shown: true, drawn: 0 };
  const badges = badgesOn(state);
  badges.add(run([node("3")], { workflow_id: "w1" }), badges.key());
  assert.equal(badges.of(other).text, "");
  state.graph = graph([mine], "w1");
  badges.update();
  assert.notEqual(badges.of(mine).text, "");
});

test("a workflow that came without an id keeps its badges when its tab is shown again with a new one", () => {
  const mine = sampler();
  const state = { graph: graph([mine], "00000000-0000-0000-0000-000000000000"), path: "a.json", shown: true, drawn: 0 };
  const badges = badgesOn(state);
  badges.add(run([node("3")], { workflow_id: "00000000-0000-0000-0000-000000000000" }));
  state.graph = graph([mine], "made-up");
  badges.update(false);
  assert.equal(badges.of(mine).text, "");
  badges.update();
  assert.notEqual(badges.of(mine).text, "");
  Object.assign(state, { path: "b.json", graph: graph([mine], "00000000-0000-0000-0000-000000000000") });
  badges.update();
  assert.equal(badges.of(mine).text, "");
});

test("badges that are switched off show nothing", () => {
  const mine = sampler();
  const state = { graph: graph([mine]), shown: false, drawn: 0 };
  const badges = badgesOn(state);
  badges.add(run([node("3")]));
  assert.equal(badges.of(mine).text, "");
  state.shown = true;
  badges.update();
  assert.notEqual(badges.of(mine).text, "");
});

test("a cached node's badge has a colour of its own", () => {
  const [ran, cached] = [sampler(), { id: 4, comfyClass: "KSampler" }];
  const badges = badgesOn({ graph: graph([ran, cached]), shown: true, drawn: 0 });
  badges.add(run([node("3"), cachedNode("4")]));
  assert.equal(badges.of(cached).text, "cached");
  assert.notEqual(badges.of(cached).bgColor, badges.of(ran).bgColor);
});

test("badges work before there is a graph", () => {
  const badges = badgesOn({ graph: undefined, shown: true, drawn: 0 });
  badges.update();
  assert.equal(badges.of({}).text, "");
});

test("a tab that becomes the active one late has the badges of its workflow all the same", () => {
  const [mine, other] = [sampler(), sampler()];
  const state = { graph: graph([mine], "0000-0"), path: "a.json", shown: true, drawn: 0 };
  const badges = badgesOn(state);
  badges.add(run([node("3")]));
  Object.assign(state, { graph: graph([other], "0000-0"), path: "b.json" });
  badges.update();
  assert.equal(badges.of(other).text, "");
  state.graph = graph([mine], "0000-0");
  badges.update(false); // loaded, and the tab of before is still the active one
  assert.equal(badges.of(mine).text, "");
  state.path = "a.json";
  assert.notEqual(badges.of(mine).text, "");
});
