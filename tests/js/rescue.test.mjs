import assert from "node:assert/strict";
import { test } from "node:test";
import { failureText, isGone, rescueMessage, rescueSettings } from "../../js/lib/rescue.js";
import { EN, said, ZH } from "./fixtures.mjs";

const SERVERS = "Hi-res (node 4) ran out of GPU memory asking for 1,536.0 MiB.";
const ENGLISH = "Hi-res (node 4) ran out of GPU memory asking for 1.5 GiB while these models were loaded: "
  + "flux.safetensors (diffusion model) 4 GiB, AutoencoderKL (VAE) 160 MiB.";
const FAILED = "{title} (node {node_id}) ran out of {memory}{asked}{held}.";
const failed = (values = {}) => said(FAILED, {
  title: "Hi-res", node_id: "4", memory: said("GPU memory"), asked: said(" asking for {asked_mib}", { asked_mib: 1536 }),
  held: said(" while these models were loaded: {models}", {
    models: said(", ", [
      said("{name} ({kind}) {loaded_mib}", { name: "flux.safetensors", kind: said("diffusion model"), loaded_mib: 4096 }),
      said("{name} ({kind}) {loaded_mib}", { name: "AutoencoderKL", kind: said("VAE"), loaded_mib: 160 }),
    ]),
  }),
  ...values,
});
const failure = (more = {}) => ({ can_rescue: true, text: SERVERS, said: failed(), ...more });
const event = (more = {}) => ({ prompt_id: "a", rescued_as: null, rescued_from: null, failure: failure(), ...more });

test("an English page says the server's sentence with amounts as in the panel", () => {
  assert.equal(failureText(failure(), EN), ENGLISH);
});

test("a Chinese one names the node, what it asked for and what was loaded", () => {
  assert.equal(
    failureText(failure(), ZH),
    "Hi-res #4 运行时显存不足，请求 1.5 GiB；当时已加载：flux.safetensors（扩散模型）4 GiB、AutoencoderKL（VAE）160 MiB。",
  );
});

test("what is not known is not said", () => {
  const bare = failed({ memory: said("RAM"), asked: "", held: "" });
  assert.equal(failureText(failure({ said: bare }), ZH), "Hi-res #4 运行时内存不足。");
});

test("why it cannot run again, and both runs of one that failed twice, are told in Chinese", () => {
  const unknown = said("No prompt {prompt_id} is known: it is not in ComfyUI's history.", { prompt_id: "p" });
  const cannot = said(" ", [failed({ held: "" }), said("It cannot run again: {why}", { why: unknown })]);
  assert.match(failureText(failure({ said: cannot }), ZH), /请求 1.5 GiB。无法重新运行：找不到任务 p/);
  const twice = said("The rerun of prompt {prompt_id} ran out of memory as well: {now} In the first run, {before}", {
    prompt_id: "p", now: failed({ held: "" }), before: failed({ title: "VAE", held: "" }),
  });
  assert.match(failureText(failure({ said: twice }), ZH), /^任务 p 重新运行时同样内存不足：Hi-res #4 .*第一次运行时：VAE #4 /);
});

test("a server that sends no phrase is shown in its own words", () => {
  assert.equal(failureText(failure({ said: undefined }), ZH), SERVERS);
});

test("an event is an offer, the news of a rerun, or the end", () => {
  assert.equal(rescueMessage(event(), EN).offer, true);
  assert.equal(rescueMessage(event({ rescued_as: "b" }), EN).severity, "info");
  assert.equal(rescueMessage(event({ rescued_from: "z", failure: failure({ can_rescue: false }) }), EN).severity, "error");
  const refused = rescueMessage(event({ failure: failure({ can_rescue: false }) }), EN);
  assert.deepEqual([refused.severity, refused.detail], ["warn", ENGLISH]);
});

test("an offer goes with its server, and stays where only its run is older than all that are kept", () => {
  const others = (count) => Array.from({ length: count }, (_, number) => ({ prompt_id: `${number}` }));
  assert.ok(isGone("a", others(49)));
  assert.ok(!isGone("a", others(50)));
  assert.ok(!isGone("a", [{ prompt_id: "a", failure: failure() }]));
  assert.ok(isGone("a", [...others(49), { prompt_id: "a", failure: failure({ can_rescue: false }) }]));
});

test("a prompt that was stopped before RAM ran out has had no error, and is not said to", () => {
  const stopped = failure({ stopped: true });
  assert.equal(rescueMessage(event({ failure: stopped }), EN).summary, "Stopped before RAM ran out");
  assert.equal(rescueMessage(event({ rescued_as: "b", failure: stopped }), ZH).summary, "已在内存用完之前停止：正在使用 OOM Guard 重新运行");
  assert.equal(rescueMessage(event({ rescued_from: "z" }), EN).summary, "Out of memory in the rerun as well");
});

test("the words of the setting are those the server knows", () => {
  assert.deepEqual(rescueSettings[0].options.map((one) => one.value ?? one).sort(), ["nothing", "offer to run it again", "run it again"]);
});
