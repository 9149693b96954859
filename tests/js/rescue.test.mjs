import assert from "node:assert/strict";
import { test } from "node:test";
import { failureText, rescueMessage, rescueSettings } from "../../js/lib/rescue.js";
import { LANGUAGES } from "../../js/lib/words.js";

const ENGLISH = "Hi-res (node 4) ran out of GPU memory asking for 1,536.0 MiB.";
const said = (key, values = {}) => ({ key, values });
const failed = (values = {}) => said("rescue_failed", {
  title: "Hi-res", node_id: "4", memory: said("memory_gpu"), asked: said("rescue_asked", { asked_mib: 1536 }),
  held: said("rescue_held", {
    models: said("joined", { joint: ",", parts: [
      said("rescue_model", { name: "flux.safetensors", kind: said("kind_diffusion_model"), loaded_mib: 4096 }),
      said("rescue_model", { name: "AutoencoderKL", kind: said("kind_vae"), loaded_mib: 160 }),
    ] }),
    others: "",
  }),
  ...values,
});
const failure = (more = {}) => ({ can_rescue: true, text: ENGLISH, said: failed(), ...more });
const event = (more = {}) => ({ prompt_id: "a", rescued_as: null, rescued_from: null, failure: failure(), ...more });
const { en: EN, zh: ZH } = LANGUAGES;

test("an English page shows the server's own sentence", () => {
  assert.equal(failureText(failure(), EN), ENGLISH);
});

test("a Chinese one names the node, what it asked for and what was loaded", () => {
  assert.equal(
    failureText(failure(), ZH),
    "Hi-res #4 运行时显存不足，请求 1.5 GiB；当时已加载：flux.safetensors（扩散模型）4 GiB、AutoencoderKL（VAE）160 MiB。",
  );
});

test("what is not known is not said", () => {
  const bare = failed({ memory: said("memory_ram"), asked: "", held: "" });
  assert.equal(failureText(failure({ said: bare }), ZH), "Hi-res #4 运行时内存不足。");
});

test("why it cannot run again, and both lives of one that failed twice, are told in Chinese", () => {
  const cannot = said("joined", { joint: "", parts: [failed({ held: "" }), said("rescue_cannot", { why: said("refused_unknown") })] });
  assert.match(failureText(failure({ said: cannot }), ZH), /请求 1.5 GiB。无法再次运行：找不到这个任务/);
  const twice = said("rescue_twice", { now: failed({ held: "" }), before: failed({ title: "VAE", held: "" }) });
  assert.match(failureText(failure({ said: twice }), ZH), /^第二次运行同样失败：Hi-res #4 .*第一次的情况：VAE #4 /);
});

test("a server that sends no keys is shown in its own words", () => {
  assert.equal(failureText(failure({ said: undefined }), ZH), ENGLISH);
});

test("an event is an offer, the news of a second run, or the end", () => {
  assert.equal(rescueMessage(event(), EN).offer, true);
  assert.equal(rescueMessage(event({ rescued_as: "b" }), EN).severity, "info");
  assert.equal(rescueMessage(event({ rescued_from: "z", failure: failure({ can_rescue: false }) }), EN).severity, "error");
  const refused = rescueMessage(event({ failure: failure({ can_rescue: false }) }), EN);
  assert.deepEqual([refused.severity, refused.detail], ["warn", ENGLISH]);
});

test("the words of the setting are those the server knows", () => {
  assert.deepEqual([...rescueSettings[0].options].sort(), ["nothing", "offer to run it again", "run it again"]);
});
