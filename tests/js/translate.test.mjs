import assert from "node:assert/strict";
import { test } from "node:test";
import { translateNodes } from "../../js/lib/translate.js";

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
