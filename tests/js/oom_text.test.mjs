import assert from "node:assert/strict";
import { test } from "node:test";

import { actionText, errorMessage, oomMessage, oomText } from "../../js/lib/happened.js";
import { EN, said, ZH } from "./fixtures.mjs";

const attempt = { attempt: 2, action: "unloaded 1 other model", freed_mib: 64, recovered: true };
const event = { ...attempt, node_id: "3", display_node_id: "3", title: "KSampler", class_type: "KSampler" };

test("an attempt of the guard is told with what it did and freed", () => {
  const text = oomText(attempt, "KSampler #3", EN);
  assert.equal(text, "KSampler #3: unloaded 1 other model (attempt 2, 64 MiB freed)");
});

test("where nobody recovers the result is called what it is: not what was asked for", () => {
  const leftOut = said("ComfyUI continued without a part of a LoRA or ControlNet, so the result is wrong; OOM Guard repeats such a call of a sampling or a text encoder");
  const entry = { ...attempt, attempt: 0, freed_mib: 0, action: leftOut.template, said: leftOut };
  assert.equal(oomText(entry, "KSampler #3", EN), `KSampler #3: ${leftOut.template}`);
  assert.match(oomText(entry, "KSampler #3", ZH), /^KSampler #3: ComfyUI 略过了/);
});

test("a node's refusal is told in the user's language, with the phrases in it", () => {
  const why = said("OOM Guard expects a MODEL, VAE, CLIP, CONTROL_NET or UPSCALE_MODEL on the input `model`, but got {came}: connect one of these there.", {
    came: said("nothing"),
  });
  const text = actionText({ action: "refused", freed_mib: 0, text: "", said: why }, "OOM Guard #4", ZH);
  assert.match(text, /^OOM Guard #4: “显存不足守护”的输入“模型”需要 MODEL.*得到的是空值/);
});

test("a message says at once that the call is tried again, and then that it has recovered", () => {
  const [begun, ended] = [null, true].map((recovered) => oomMessage({ ...event, recovered }, EN));
  assert.deepEqual([begun.severity, begun.summary], ["warn", "Out of memory, trying again"]);
  assert.deepEqual([ended.severity, ended.summary], ["success", "Recovered from out of memory"]);
  for (const { detail } of [begun, ended]) assert.match(detail, /^KSampler #3: unloaded 1 other model/);
});

test("a try that did not help is no message of its own: the next one or the error follows", () => {
  assert.equal(oomMessage({ ...event, recovered: false }, EN), null);
});

test("a result that is wrong without an error is a message though nobody recovers it", () => {
  const message = oomMessage({ ...event, attempt: 0, recovered: false }, EN);
  assert.deepEqual([message.severity, message.summary], ["warn", "Out of memory"]);
});

test("an error that no rerun can help is told with its meaning and what helps, in both languages", () => {
  const told = (template, values = {}) => ({ text: template, said: said(template, values) });
  const what = told("The driver refused memory to ComfyUI's dynamic VRAM, but not because memory was short.");
  const means = { what, do: [told("start ComfyUI with {flag}", { flag: "--disable-dynamic-vram" })] };
  assert.equal(errorMessage({ means }, EN).detail, `${what.text}\n• start ComfyUI with --disable-dynamic-vram`);
  assert.match(errorMessage({ means }, ZH).detail, /^驱动拒绝.*\n• 用 --disable-dynamic-vram 启动/);
});
