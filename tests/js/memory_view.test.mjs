import assert from "node:assert/strict";
import { test } from "node:test";

import { torchParts } from "../../js/lib/memory_view.js";
import { nameOf } from "../../js/lib/models_view.js";

test("what tensors use and what torch only keeps for later ones are told apart", () => {
  const device = { other_torch_mib: 300, allocated_mib: 700, reserved_mib: 820 };
  assert.deepEqual(torchParts(device), [["inUse", 180], ["cache", 120]]);
});

test("models that are loaded but not allocated by torch make no part negative", () => {
  const device = { other_torch_mib: 50, allocated_mib: 0, reserved_mib: 90 };
  assert.deepEqual(torchParts(device), [["inUse", 0], ["cache", 50]]);
});

test("where torch does not tell, its memory stays one part", () => {
  assert.deepEqual(torchParts({ other_torch_mib: 50, allocated_mib: null, reserved_mib: null }), [["otherTorch", 50]]);
});

test("a model is called by its file, and by its class where no file is known", () => {
  assert.equal(nameOf({ file: "v1-5.safetensors", class: "BaseModel" }), "v1-5.safetensors");
  assert.equal(nameOf({ file: null, class: "AutoencoderKL" }), "AutoencoderKL");
});
