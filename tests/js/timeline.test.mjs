import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bands, bandsAt, duration, hueOf, memoryLimit, memoryTicks, points, sampleAt, ticks,
} from "../../js/lib/timeline.js";
import { cachedNode, node, run } from "./fixtures.mjs";

test("bands cover their spans in pixels and cached nodes have none", () => {
  const found = bands(run([node("1", { spans: [[0, 4]] }), node("2", { spans: [[4, 10]] }), cachedNode("3")]), 200);
  assert.deepEqual(
    found.map((band) => [band.node.node_id, band.lane, band.x, band.width]),
    [["1", 0, 0, 80], ["2", 0, 80, 120]],
  );
});

test("async nodes that overlap go to lanes of their own, which are used again", () => {
  const found = bands(
    run([node("a", { spans: [[0, 6]] }), node("b", { spans: [[1, 3]] }), node("c", { spans: [[3, 10]] })]),
    100,
  );
  assert.deepEqual(found.map((band) => [band.node.node_id, band.lane]), [["a", 0], ["b", 1], ["c", 1]]);
});

test("a node with several spans has several bands", () => {
  const found = bands(run([node("1", { spans: [[0, 1], [9, 10]] })]), 100);
  assert.deepEqual(found.map((band) => [band.x, band.width]), [[0, 10], [90, 10]]);
});

test("the shortest band is still a pixel wide", () => {
  assert.equal(bands(run([node("1", { spans: [[5, 5.0001]] })]), 100)[0].width, 1);
});

test("a running node's open span reaches the newest sample", () => {
  const unfinished = run([node("1", { status: "running", spans: [[2, null]] })], { status: "running", seconds: 4 });
  assert.equal(duration(unfinished), 10);
  assert.equal(bands(unfinished, 100)[0].width, 80);
});

test("an empty run has a duration above zero", () => {
  assert.ok(duration(run([], { seconds: 0, samples: { seconds: [], vram_mib: [], rss_mib: [] } })) > 0);
});

test("grid lines are round and stay inside", () => {
  assert.deepEqual(ticks(10, 4), [5, 10]);
  assert.deepEqual(ticks(0.9, 3).map((at) => Number(at.toFixed(6))), [0.5]);
  assert.deepEqual(ticks(0, 4), []);
  assert.deepEqual(memoryTicks(1024, 4), [256, 512, 768, 1024]);
  assert.deepEqual(memoryTicks(24564, 4), [8192, 16384]);
  assert.deepEqual(memoryTicks(0, 4), []);
});

test("memory charts reach the card's size once half of it is used, else a little above the peak", () => {
  assert.equal(memoryLimit([100, 900], 1024), 1024);
  assert.equal(memoryLimit([100, 200], 1024), 200 * 1.15);
  assert.equal(memoryLimit([1, 2], null), 64);
  assert.equal(memoryLimit([null, null], 1024), null);
  assert.equal(memoryLimit([], 1024), null);
});

test("a curve leaves unknown samples out", () => {
  assert.deepEqual(points([0, 5, 10], [0, null, 50], 10, 100, 200, 80), [[0, 80], [200, 40]]);
});

test("the sample at a moment is the one at or just before it", () => {
  const at = (moment) => sampleAt([0, 1, 2, 5], moment);
  assert.deepEqual([-1, 0, 0.9, 1, 4.9, 99].map(at), [-1, 0, 0, 1, 2, 3]);
  assert.equal(sampleAt([], 1), -1);
});

test("the bands at a moment are those that contain it", () => {
  const found = bands(run([node("1", { spans: [[0, 4]] }), node("2", { spans: [[4, 10]] })]), 100);
  assert.deepEqual(bandsAt(found, 4).map((band) => band.node.node_id), ["1", "2"]);
  assert.deepEqual(bandsAt(found, 11), []);
});

test("a class of node has the same hue in every run, and different ones differ", () => {
  assert.equal(hueOf("KSampler"), hueOf("KSampler"));
  assert.notEqual(hueOf("KSampler"), hueOf("VAEDecode"));
  assert.ok(hueOf("KSampler") >= 0 && hueOf("KSampler") < 360);
});
