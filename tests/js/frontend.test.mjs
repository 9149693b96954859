// What the frontend does not promise: used where it is there, done without where it is not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createFrontend } from "../../js/lib/frontend.js";

const TAB = { id: "headroom", revision: 0 };
const frontendOf = (manager = {}, page = {}, more = {}) =>
  createFrontend({ extensionManager: { setting: { get: () => undefined }, ...manager }, ...more }, page);

test("a frontend with none of it: no node, no badge, our own tab, no file, the wider growth", () => {
  const bare = frontendOf();
  const node = { badges: [] };
  bare.addBadge(node, () => ({ text: "1 s" }));
  bare.onLanguage(() => assert.fail("nobody tells"));
  assert.equal(bare.createNode("HeadroomOOMGuard"), null);
  assert.deepEqual(node.badges, []);
  assert.equal(bare.tabOf(TAB), TAB);
  assert.equal(bare.workflowPath(), "");
  assert.equal(bare.growth(), 1.5);
  assert.equal(bare.version(), "unknown");
});

test("a badge has what the title and the pack's name leave of a node in Nodes 2.0", () => {
  const on = (nodes2, header = {}) => frontendOf({ setting: { get: () => nodes2 } }, { document: { querySelector: () => header } });
  const ours = { title: "Offload Model", size: [300, 100], constructor: { nodeData: { python_module: "custom_nodes.headroom" } } };
  assert.equal(on(false).badgeRoom(ours), Infinity);
  assert.equal(on(true, null).badgeRoom(ours), Infinity);  // newer frontends draw badges below
  assert.equal(on(true).badgeRoom(ours), 300 - 85 - 8 * "Offload Model  headroom".length);
  assert.equal(on(true).badgeRoom({ title: "VAE解码", size: [140, 46] }), 225 - 85 - 8 * 7);
});

test("wires that Use Everywhere makes only while a prompt is queued are in the open workflow", async () => {
  const sampler = (inputs) => ({ output: { 3: { class_type: "KSampler", inputs } } });
  const graphToPrompt = async () => sampler({ seed: 1, steps: 2, latent_image: ["5", 0] });
  const queued = async () => sampler({ model: ["1", 0], seed: ["7", 0], steps: 2, latent_image: ["6", 0] });
  const inputsBeside = async (more) => (await frontendOf({}, {}, { graphToPrompt, ...more }).prompt())[3].inputs;
  assert.deepEqual(await inputsBeside({ ue_modified_prompt: queued }), { model: ["1", 0], seed: ["7", 0], steps: 2, latent_image: ["5", 0] });
  for (const more of [{}, { ue_modified_prompt: async () => undefined }]) {
    assert.deepEqual(await inputsBeside(more), { seed: 1, steps: 2, latent_image: ["5", 0] });
  }
});

test("a node without badges gets none", () => {
  frontendOf({}, { LGraphBadge: class {} }).addBadge({}, () => ({}));
});

test("the page's own classes make nodes and badges, these with the text of the moment", () => {
  const LGraphBadge = class { constructor(look) { this.look = look; } };
  const full = frontendOf({}, { LGraphBadge, LiteGraph: { createNode: (type) => ({ type }) } });
  assert.deepEqual(full.createNode("A"), { type: "A" });
  const node = { badges: [] };
  let text = "1 s";
  full.addBadge(node, () => ({ text }));
  text = "2 s";
  assert.deepEqual(node.badges.map((badge) => badge().look), [{ text: "2 s" }]);
});

test("nodes grow where Nodes 2.0 is on, and not on the classic canvas", () => {
  const drawnBy = (value) => frontendOf({ setting: { get: (id) => (id === "Comfy.VueNodes.Enabled" ? value : null) } });
  assert.deepEqual([true, false].map((on) => drawnBy(on).growth()), [1.5, 1]);
});

test("the tab that the frontend keeps is the reactive one", () => {
  const kept = { id: "headroom" };
  assert.equal(frontendOf({ getSidebarTabs: () => [{ id: "queue" }, kept] }).tabOf(TAB), kept);
  assert.equal(frontendOf({ getSidebarTabs: () => [] }).tabOf(TAB), TAB);
});

test("the file of the workflow that is shown", () => {
  assert.equal(frontendOf({ workflow: { activeWorkflow: { path: "workflows/a.json" } } }).workflowPath(), "workflows/a.json");
  assert.equal(frontendOf({ workflow: { activeWorkflow: null } }).workflowPath(), "");
});

test("another language is told once the frontend has kept it", async () => {
  const settings = new EventTarget();
  let locale = "en";
  const told = [];
  frontendOf({}, {}, { ui: { settings } }).onLanguage(() => told.push(locale));
  settings.dispatchEvent(new Event("Comfy.Locale.change"));
  locale = "zh";
  await new Promise((done) => setTimeout(done));
  assert.deepEqual(told, ["zh"]);
});
