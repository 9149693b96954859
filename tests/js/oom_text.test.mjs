import assert from "node:assert/strict";
import { test } from "node:test";

import { oomText } from "../../js/lib/run_view.js";
import { LANGUAGES } from "../../js/lib/words.js";

const ENGLISH = LANGUAGES.en;
const attempt = { attempt: 2, action: "unloaded 1 other model", freed_mib: 64, recovered: true };

test("an attempt of the guard is told with what it did and freed", () => {
  const text = oomText(attempt, "KSampler #3", ENGLISH);
  assert.equal(text, "KSampler #3: unloaded 1 other model (attempt 2, 64 MiB freed)");
});

test("where nobody recovers the result is called what it is: not what was asked for", () => {
  const text = oomText({ ...attempt, attempt: 0, freed_mib: 0 }, "KSampler #3", ENGLISH);
  assert.match(text, /^KSampler #3: ComfyUI went on without .* not what was asked for/);
  assert.doesNotMatch(text, /attempt|freed/);
});
