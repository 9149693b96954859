import assert from "node:assert/strict";
import { test } from "node:test";
import { failureText, rescueMessage, rescueSettings } from "../../js/lib/rescue.js";
import { LANGUAGES } from "../../js/lib/words.js";

const failure = (more = {}) => ({
  node_id: "4", class_type: "KSampler", title: "Hi-res", where: "GPU", asked_mib: 1536,
  held: [{ kind: "diffusion model", class: "Flux", file: "flux.safetensors", loaded_mib: 4096 }, { kind: "VAE", class: "AutoencoderKL", loaded_mib: 160 }],
  can_rescue: true, is_incomplete: false, text: "the server's own words", ...more,
});
const event = (more = {}) => ({ prompt_id: "a", rescued_as: null, rescued_from: null, failure: failure(), ...more });
const EN = LANGUAGES.en;

test("the sentence names the node, what it asked for and what was loaded", () => {
  assert.equal(
    failureText(failure(), EN),
    "Hi-res #4 ran out of VRAM, asking for 1.5 GiB; loaded then: flux.safetensors 4 GiB, AutoencoderKL 160 MiB.",
  );
});

test("what is not known is not said", () => {
  const bare = failure({ asked_mib: null, held: [], title: "", where: "RAM" });
  assert.equal(failureText(bare, EN), "KSampler #4 ran out of RAM.");
});

test("a result without a part of a LoRA is told as such", () => {
  assert.match(failureText(failure({ is_incomplete: true }), EN), /went on without a part of a LoRA/);
});

test("an event is an offer, the news of a second run, or the end", () => {
  assert.equal(rescueMessage(event(), EN).offer, true);
  assert.equal(rescueMessage(event({ rescued_as: "b" }), EN).severity, "info");
  assert.equal(rescueMessage(event({ rescued_from: "z", failure: failure({ can_rescue: false }) }), EN).severity, "error");
  const refused = rescueMessage(event({ failure: failure({ can_rescue: false }) }), EN);
  assert.deepEqual([refused.severity, refused.detail], ["warn", "the server's own words"]);
});

for (const [language, words] of Object.entries(LANGUAGES)) {
  test(`every sentence is complete in ${language}`, () => {
    for (const more of [{}, { asked_mib: null }, { held: [] }, { is_incomplete: true }]) {
      assert.doesNotMatch(failureText(failure(more), words), /[{}]|undefined/);
    }
  });
}

test("the words of the setting are those the server knows", () => {
  assert.deepEqual([...rescueSettings[0].options].sort(), ["nothing", "offer to run it again", "run it again"]);
});
