import assert from "node:assert/strict";
import { test } from "node:test";

import { errorMessage, oomMessage, oomText } from "../../js/lib/happened.js";
import { LANGUAGES } from "../../js/lib/words.js";

const ENGLISH = LANGUAGES.en;
const attempt = { attempt: 2, action: "unloaded 1 other model", freed_mib: 64, recovered: true };
const event = { ...attempt, node_id: "3", display_node_id: "3", title: "KSampler", class_type: "KSampler" };

test("an attempt of the guard is told with what it did and freed", () => {
  const text = oomText(attempt, "KSampler #3", ENGLISH);
  assert.equal(text, "KSampler #3: unloaded 1 other model (attempt 2, 64 MiB freed)");
});

test("where nobody recovers the result is called what it is: not what was asked for", () => {
  const text = oomText({ ...attempt, attempt: 0, freed_mib: 0 }, "KSampler #3", ENGLISH);
  assert.match(text, /^KSampler #3: ComfyUI went on without .* not what was asked for/);
  assert.doesNotMatch(text, /attempt|freed/);
});

test("a message says at once that the call is tried again, and then that it has recovered", () => {
  const [begun, ended] = [null, true].map((recovered) => oomMessage({ ...event, recovered }, ENGLISH));
  assert.deepEqual([begun.severity, begun.summary], ["warn", "Out of memory, trying again"]);
  assert.deepEqual([ended.severity, ended.summary], ["success", "Recovered from out of memory"]);
  for (const { detail } of [begun, ended]) assert.match(detail, /^KSampler #3: unloaded 1 other model/);
});

test("a try that did not help is no message of its own: the next one or the error follows", () => {
  assert.equal(oomMessage({ ...event, recovered: false }, ENGLISH), null);
});

test("a result that is wrong without an error is a message though nobody recovers it", () => {
  const message = oomMessage({ ...event, attempt: 0, recovered: false }, ENGLISH);
  assert.deepEqual([message.severity, message.summary], ["warn", "Out of memory"]);
});

test("an error that no rerun can help is told with its meaning and what helps, in both languages", () => {
  const told = (key, text) => ({ text, said: { key, values: { flag: "--disable-dynamic-vram" } } });
  const means = { what: told("error_pager_fault", "The driver refused"), do: [told("help_no_dynamic", "start it with --disable-dynamic-vram")] };
  assert.equal(errorMessage({ means }, ENGLISH).detail, "The driver refused\n• start it with --disable-dynamic-vram");
  assert.match(errorMessage({ means }, LANGUAGES.zh).detail, /^驱动拒绝.*\n• 用 --disable-dynamic-vram 启动/);
});
