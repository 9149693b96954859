// Texts of our nodes in the widgets that show them: in the page's language, English where that is it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createPreviews } from "../../js/lib/previews.js";
import { wordsFor } from "../../js/lib/words.js";

const ENGLISH = "2.0 MiB of VRAM freed\n- models: none were loaded";
const CHINESE = "释放了 2 MiB 显存\n- 模型：没有已加载的模型";
const told = JSON.stringify({ key: "joined", values: { joint: "\n", parts: [
  { key: "freed", values: { freed_mib: 2 } },
  { key: "report_step", values: { step: { key: "purge_none_loaded", values: {} } } },
] } });
const OURS = { text: [ENGLISH], headroom: [told] };

function shownOn(locale, ...values) {
  const nodes = { 5: { widgets: values.map((value) => ({ value })) } };
  const previews = createPreviews({ words: () => wordsFor(locale), nodeOf: (id) => nodes[id] ?? null });
  return { previews, values: () => nodes[5].widgets.map((widget) => widget.value), nodes };
}

test("a widget that shows a text of ours speaks the user's language, others keep their values", () => {
  const { previews, values } = shownOn("zh", ENGLISH, "a prompt", 7, null);
  previews.update({ 2: OURS });
  previews.update({ 5: { text: [ENGLISH] } });
  assert.deepEqual(values(), [CHINESE, "a prompt", 7, null]);
});

test("a text that comes back with the outputs of a workflow is told again", () => {
  const { previews, values, nodes } = shownOn("zh", ENGLISH);
  previews.update({ 5: { text: [ENGLISH] }, 2: OURS });
  assert.deepEqual(values(), [CHINESE]);
  nodes[5].widgets[0].value = ENGLISH;
  previews.update({ 5: { text: [ENGLISH] } });
  assert.deepEqual(values(), [CHINESE]);
});

test("a text that is shown before the node that wrote it has told what it says", () => {
  const { previews, values } = shownOn("zh", ENGLISH);
  previews.update({ 5: { text: [ENGLISH] } });
  assert.deepEqual(values(), [ENGLISH]);
  previews.update({ 2: OURS });
  assert.deepEqual(values(), [CHINESE]);
});

test("an English page, and a server with words that this page does not know, stay as they are", () => {
  const english = shownOn("en", ENGLISH);
  english.previews.update({ 2: OURS, 5: { text: [ENGLISH] } });
  assert.deepEqual(english.values(), [ENGLISH]);
  const newer = shownOn("zh", ENGLISH);
  newer.previews.update({ 2: { text: [ENGLISH], headroom: ['{"key": "of a newer server", "values": {}}'] }, 5: { text: [ENGLISH] } });
  assert.deepEqual(newer.values(), [ENGLISH]);
});

test("nodes that are gone, and outputs without text, are no trouble", () => {
  const { previews } = shownOn("zh", ENGLISH);
  previews.update({ 9: OURS, 5: { images: [] }, 6: null });
});
