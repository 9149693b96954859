import assert from "node:assert/strict";
import { test } from "node:test";
import { fill, LANGUAGES, wordsFor } from "../../js/lib/words.js";

test("every language says everything, with the same values to fill in", () => {
  const values = (text) => [...text.matchAll(/\{\w+\}/g)].map(String).sort();
  for (const words of Object.values(LANGUAGES)) {
    assert.deepEqual(Object.keys(words).sort(), Object.keys(LANGUAGES.en).sort());
    for (const [key, text] of Object.entries(words)) {
      assert.deepEqual(values(text), values(LANGUAGES.en[key]), key);
    }
  }
});

test("a regional locale speaks its language, an unknown one English", () => {
  assert.equal(wordsFor("zh-TW"), LANGUAGES.zh);
  assert.equal(wordsFor("ja"), LANGUAGES.en);
  assert.equal(wordsFor(undefined), LANGUAGES.en);
});

test("values that are missing stay visible", () => {
  assert.equal(fill("{a} of {b}", { a: 0 }), "0 of {b}");
});
