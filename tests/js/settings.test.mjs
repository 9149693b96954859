import assert from "node:assert/strict";
import { test } from "node:test";
import { applyDefaults, settings, showNoChoice, widen } from "../../js/lib/settings.js";

test("every setting has an id of ours, a category, a name and a default", () => {
  const all = settings(() => {});
  assert.equal(new Set(all.map((each) => each.id)).size, all.length);
  for (const each of all) {
    assert.match(each.id, /^Headroom\.\w+\.\w+$/);
    assert.equal(each.category.length, 3);
    assert.ok(each.name && each.type && each.defaultValue !== undefined, each.id);
  }
});

test("a combo offers its default first, and no choice is so long that newer frontends cut it", () => {
  for (const each of settings(() => {}).filter((one) => one.type === "combo")) {
    assert.equal(each.options[0].value ?? each.options[0], each.defaultValue);
    for (const one of each.options) assert.ok((one.text ?? one).length <= 17, one);
  }
});

const purge = () => ({
  comfyClass: "HeadroomPurgeVRAM",
  widgets: [{ name: "unload", value: "all models" }, { name: "free_ram", value: false }],
});

test("a new node starts with the user's values", () => {
  const node = purge();
  const chosen = { "Headroom.Defaults.PurgeVRAMUnload": "no models", "Headroom.Defaults.PurgeVRAMFreeRam": true };
  applyDefaults(node, (id) => chosen[id]);
  assert.deepEqual(node.widgets.map((widget) => widget.value), ["no models", true]);
});

test("without a choice, and on other packs' nodes, nothing is touched", () => {
  const node = purge();
  const other = { comfyClass: "KSampler", widgets: [{ name: "unload", value: "x" }] };
  applyDefaults(node, () => undefined);
  applyDefaults(other, () => "no models");
  assert.deepEqual(node.widgets.map((widget) => widget.value), ["all models", false]);
  assert.equal(other.widgets[0].value, "x");
});

test("a node whose widget is missing is left alone", () => {
  applyDefaults({ comfyClass: "HeadroomPurgeVRAM" }, () => "no models");
});

test("a new node of ours is wide enough for its words, and no other node is touched", () => {
  const made = (comfyClass, width) => {
    const node = { comfyClass, size: [width, 80], setSize: (size) => { node.size = size; } };
    widen(node);
    return node.size;
  };
  assert.deepEqual(made("HeadroomPurgeVRAM", 289), [345, 80]);
  assert.deepEqual(made("HeadroomMoveToCPU", 140), [320, 80]);
  assert.deepEqual(made("HeadroomSizeSorter", 400), [400, 80]);
  assert.deepEqual(made("KSampler", 140), [140, 80]);
});

test("a choice among nothing is empty, any other one and those of other packs stay", () => {
  const of = (comfyClass, value) => {
    const node = { comfyClass, widgets: [{ type: "combo", value }, { type: "number", value: undefined }] };
    showNoChoice(node);
    return node.widgets.map((widget) => widget.value);
  };
  assert.deepEqual(of("HeadroomLoadConditioning", undefined), ["", undefined]);
  assert.deepEqual(of("HeadroomLoadConditioning", "portrait"), ["portrait", undefined]);
  assert.deepEqual(of("CheckpointLoaderSimple", undefined), [undefined, undefined]);
});
