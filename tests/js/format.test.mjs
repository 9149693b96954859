import assert from "node:assert/strict";
import { test } from "node:test";
import { badgeText, compactMib, dayAndTime, growthText, mib, seconds, signedMib } from "../../js/lib/format.js";
import { EN, ZH } from "./fixtures.mjs";

test("memory is written with three digits at most, from 1000 MiB on in GiB", () => {
  assert.deepEqual([0, 0.04, 4.66, 10, 512, 999, 1006, 1024, 1228.8, 24564, 102400].map(mib), [
    "0 MiB", "0 MiB", "4.7 MiB", "10 MiB", "512 MiB", "999 MiB", "1 GiB", "1 GiB", "1.2 GiB", "24 GiB",
    "100 GiB",
  ]);
});

test("an unknown amount is a dash, never a zero", () => {
  assert.deepEqual([mib(null), mib(undefined), signedMib(null), seconds(null)], ["–", "–", "–", "–"]);
});

test("a difference carries its sign and nothing rounds to minus zero", () => {
  assert.deepEqual([300, -2048, 0, -0.01].map(signedMib), ["+300 MiB", "−2 GiB", "0 MiB", "0 MiB"]);
});

test("a narrow column drops the iB", () => {
  assert.deepEqual([512, 1228.8, null].map(compactMib), ["512M", "1.2G", "–"]);
});

test("time is written in ms, seconds or minutes", () => {
  assert.deepEqual([0, 0.004, 0.0994, 0.1, 3.44, 9.96, 59.4, 59.6, 125].map(seconds), [
    "0 ms", "4 ms", "99 ms", "0.1 s", "3.4 s", "10 s", "59 s", "1:00 min", "2:05 min",
  ]);
});

test("growth stands beside the level, and a unit that both have is said once", () => {
  assert.equal(growthText(48, 92, EN), "+48, 92 MiB in all");
  assert.equal(growthText(300, 1228.8, EN), "+300 MiB, 1.2 GiB in all");
  assert.equal(growthText(-594, 0, EN), "−594, 0 MiB in all");
  assert.equal(growthText(48, 92, ZH), "+48，共 92 MiB");
});

test("a badge shows by how much memory rose, to what, and the time; and says cached", () => {
  const node = { peak_vram_mib: 92, growth_mib: 48, seconds: 3.4, cached: false };
  assert.equal(badgeText(node, EN), "+48, 92 MiB in all · 3.4 s");
  assert.equal(badgeText({ ...node, growth_mib: 0 }, EN), "3.4 s");
  assert.equal(badgeText({ ...node, peak_vram_mib: null, growth_mib: null }, EN), "3.4 s");
  assert.equal(badgeText({ ...node, seconds: 0, cached: true }, EN), "cached");
});

test("where there is less room a badge leaves out the level, then the time", () => {
  const node = { peak_vram_mib: 92, growth_mib: 48, seconds: 3.4, cached: false };
  const texts = (all, t) => [200, 140, 75, 0].map((pixels) => badgeText(all, t, pixels));
  assert.deepEqual(texts(node, EN), ["+48, 92 MiB in all · 3.4 s", "+48 MiB · 3.4 s", "+48 MiB", "+48 MiB"]);
  assert.deepEqual(texts({ ...node, growth_mib: 0 }, EN), Array(4).fill("3.4 s"));
  assert.deepEqual(texts({ ...node, cached: true }, ZH), ["已缓存", "已缓存", "已缓存", ""]);  // a title is worth more
});

test("a node that took neither memory nor time has no badge", () => {
  const idle = { peak_vram_mib: 0, growth_mib: 0, seconds: 0.0004, cached: false };
  assert.equal(badgeText(idle, EN), "");
  assert.equal(badgeText({ ...idle, peak_vram_mib: 594 }, EN), "");
  assert.equal(badgeText({ ...idle, growth_mib: 8, peak_vram_mib: 8 }, EN), "+8, 8 MiB in all");
});

test("a time of today is that of the clock, any other has its day, with two digits everywhere", () => {
  const at = new Date(2026, 0, 2, 3, 4, 5);
  assert.equal(dayAndTime(at / 1000, at), "03:04:05");
  assert.equal(dayAndTime(at / 1000, new Date(2026, 0, 3)), "2026-01-02 03:04:05");
});
