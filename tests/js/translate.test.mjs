import assert from "node:assert/strict";
import { test } from "node:test";
import { settings } from "../../js/lib/settings.js";
import { translateCommands, translateNodes, translateSettings, translateSlots } from "../../js/lib/translate.js";

const purge = () => ({
  HeadroomPurgeVRAM: {
    display_name: "Purge VRAM", description: "Give.", output_tooltips: ["same", "report"],
    input: { required: { unload: ["COMBO", { tooltip: "Which" }] }, optional: { value: ["*"], keep: ["*", {}] } },
  },
});

test("names and tooltips are put into the user's language, what has none stays", () => {
  const defs = purge();
  translateNodes(defs, {
    nodeDefs: {
      HeadroomPurgeVRAM: {
        display_name: "清理显存", inputs: { unload: { tooltip: "哪些" }, value: { tooltip: "任意" } },
        outputs: { 1: { tooltip: "报告" } },
      },
    },
  });
  assert.deepEqual(defs.HeadroomPurgeVRAM, {
    display_name: "清理显存", description: "Give.", output_tooltips: ["same", "报告"],
    input: { required: { unload: ["COMBO", { tooltip: "哪些" }] }, optional: { value: ["*"], keep: ["*", {}] } },
  });
});

test("a language that is not spoken, and nodes of other packs, change nothing", () => {
  const defs = { ...purge(), KSampler: { display_name: "KSampler" } };
  translateNodes(defs, undefined);
  translateNodes(defs, { nodeDefs: { KSampler: { display_name: "x" }, HeadroomGone: {} } });
  assert.deepEqual(defs, { ...purge(), KSampler: { display_name: "KSampler" } });
});

test("sockets and widgets of a node get their names, those that have none keep theirs", () => {
  const node = {
    comfyClass: "HeadroomPurgeVRAM", inputs: [{ name: "value" }, { name: "extra" }],
    widgets: [{ name: "unload", label: "unload" }, { name: "control", label: "control" }],
    outputs: [{ name: "value" }, { name: "more", localized_name: "more" }],
  };
  const words = { nodeDefs: { HeadroomPurgeVRAM: {
    inputs: { value: { name: "值" }, unload: { name: "卸载" } }, outputs: { 0: { name: "值" } },
  } } };
  translateSlots(node, words);
  assert.deepEqual(node.inputs.map((input) => input.localized_name), ["值", undefined]);
  assert.deepEqual(node.widgets.map((widget) => widget.label), ["卸载", "control"]);
  assert.deepEqual(node.outputs.map((output) => output.localized_name), ["值", "more"]);
});

test("nodes of other packs, and a page in English, keep every name", () => {
  const node = { comfyClass: "KSampler", inputs: [{ name: "model" }] };
  translateSlots(node, { nodeDefs: { KSampler: { inputs: { model: { name: "模型" } } } } });
  translateSlots({ comfyClass: "HeadroomPurgeVRAM" }, null);
  assert.deepEqual(node.inputs, [{ name: "model" }]);
});

test("settings and commands get their words and keep all else", () => {
  const [shown] = settings(() => {});
  const words = {
    settings: { Headroom_Badges_Show: { name: "显示" } }, settingsCategories: { Badges: "徽标" },
    commands: { Headroom_Purge: { label: "清理" } },
  };
  const [translated] = translateSettings([shown], words);
  assert.deepEqual([translated.name, translated.category], ["显示", ["Headroom", "徽标", "Show"]]);
  assert.deepEqual([translated.id, translated.onChange], [shown.id, shown.onChange]);
  assert.deepEqual(translateSettings([shown], null), [{ ...shown, tooltip: undefined }]);
  const choice = { id: "Headroom.A", category: ["Headroom", "Badges", "A"], options: ["off", "new", { text: "a", value: "b" }], defaultValue: "off" };
  const [chosen] = translateSettings([choice], { settings: { Headroom_A: { options: { off: "关闭" } } } });
  assert.deepEqual(chosen.options, [{ text: "关闭", value: "off" }, { text: "new", value: "new" }, { text: "a", value: "b" }]);
  assert.deepEqual([chosen.defaultValue, translateSettings([choice], null)[0].options], ["off", choice.options]);
  assert.equal(translateCommands([{ id: "Headroom.Purge", label: "Purge" }], words)[0].label, "清理");
});
