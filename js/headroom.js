// The only file that talks to the frontend: what it hands in here, js/lib/ works with.
import { api } from "../../scripts/api.js";
import { app } from "../../scripts/app.js";
import { titlesOf } from "./lib/advice.js";
import { applyEdits } from "./lib/applying.js";
import { createBadges } from "./lib/badges.js";
import { findNode, isOfClass, rootOf, showNode } from "./lib/graph.js";
import { oomMessage } from "./lib/happened.js";
import { createHttp, finishedRun, reasonText } from "./lib/http.js";
import { createPanel } from "./lib/panel.js";
import { createPreviews } from "./lib/previews.js";
import { createRescue } from "./lib/rescue.js";
import { reportText } from "./lib/said.js";
import { applyDefaults, REFRESH_SECONDS, settings, SHOW_BADGES, widen } from "./lib/settings.js";
import { translateCommands, translateNodes, translateSettings, translateSlots } from "./lib/translate.js";
import { CannotApply } from "./lib/wires.js";
import { fill, wordsFor } from "./lib/words.js";

const TAB = "headroom";
const PURGE = "Headroom.Purge";
const SHOW_PANEL = "Headroom.ShowPanel";
const ENDS = ["execution_success", "execution_error", "execution_interrupted"];

const setting = (id) => app.extensionManager.setting.get(id);
const words = () => wordsFor(setting("Comfy.Locale"));
const http = createHttp((path, options) => api.fetchApi(path, options));
/** Nodes of ours are up to 1.45 times as high in Nodes 2.0 as LiteGraph says before they are drawn. */
const NODES2_GROWTH = 1.5;
/** So long after a workflow has been loaded its tab is the active one. */
const SETTLED_MS = 300;
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const queuedOn = new Map();
let badgesShown = null;
let applying = Promise.resolve();

function notify(severity, summary, detail) {
  app.extensionManager.toast.add({ severity, summary, detail, life: 6000 });
}

const previews = createPreviews({ words, nodeOf: (id) => findNode(rootOf(app.canvas?.graph), id) });
const rescue = createRescue({ http, words, notify });

const panel = createPanel({
  http,
  words,
  notify,
  interval: () => Number(setting(REFRESH_SECONDS)) || 2,
  pickNode,
  purge,
  apply,
});

async function purge() {
  try {
    const report = await http.purge();
    notify("success", words().purge, reportText(report, words()).headline);
    return report;
  } catch (error) {
    notify("warn", words().purge, reasonText(error, words()));
    return null;
  }
}

/** A page that nobody sees draws no frames; a busy machine's may take long, and sizes are known only then. */
const frame = () => Promise.race([new Promise((done) => requestAnimationFrame(done)), wait(document.hidden ? 100 : 500)]);

/** One after the other: two at once would be one step of undo. */
function apply(advice, run) {
  applying = applying.then(() => applyNow(advice, run)).catch((error) => console.error("[Headroom]", error));
  return applying;
}

/** Put pieces of advice on a run into the workflow on the canvas, as one step of undo. */
async function applyNow(advice, run) {
  const texts = words();
  const classes = new Map(run.nodes.map((node) => [String(node.node_id), node.class_type]));
  const names = titlesOf(advice, texts);
  try {
    await applyEdits(advice.map((item) => item.edit), classes, {
      canvas: app.canvas,
      prompt: async () => (await app.graphToPrompt()).output,
      create: (type) => window.LiteGraph.createNode(type),
      undo: () => app.extensionManager.workflow.activeWorkflow.changeTracker.undo(),
      frame,
      wait,
      growth: () => (window.LiteGraph.vueNodesMode ? NODES2_GROWTH : 1),
    });
    notify("success", fill(texts.adviceApplied, { names }), texts.adviceUndo);
  } catch (error) {
    if (!(error instanceof CannotApply)) throw error;
    notify("warn", texts.adviceNotDone, fill(texts[error.key], error.values));
  }
}

function pickNode({ node_id: id, display_node_id: shown, class_type: classType }) {
  const node = findNode(rootOf(app.canvas.graph), shown ?? id);
  const own = String(shown ?? id) === String(id);
  if (!node || (own && !isOfClass(node, classType))) {
    notify("info", "Headroom", fill(words().notOnCanvas, { id: shown ?? id }));
    return;
  }
  showNode(app.canvas, node);
}

/**
 * Badges are functions that the frontend calls when it draws. In Nodes 2.0 it calls them again
 * only when something reactive that they have read changes: `revision` of our own tab is that.
 */
const tab = {
  id: TAB,
  icon: "pi pi-gauge",
  title: "Headroom",
  tooltip: "Headroom",
  type: "custom",
  revision: 0,
  render: (container) => panel.mount(container),
  destroy: () => panel.unmount(),
};

const registered = () =>
  app.extensionManager.sidebarTab?.sidebarTabs.find((candidate) => candidate.id === TAB) ?? tab;

/** The frontend tells a new value before it keeps it. */
function wantsBadges() {
  return badgesShown ?? setting(SHOW_BADGES);
}

function showBadges(shown) {
  badgesShown = shown;
  badges.update();
}

const badges = createBadges({
  graph: () => app.canvas?.graph,
  path: () => app.extensionManager.workflow?.activeWorkflow?.path ?? "",
  shown: wantsBadges,
  words,
  redraw() {
    registered().revision += 1;
    app.canvas?.setDirty(true, true);
  },
});

function addBadge(node) {
  node.badges?.push(() => {
    void registered().revision;
    return new window.LGraphBadge(badges.of(node));
  });
}

async function onEnd({ detail }) {
  panel.refresh();
  const key = queuedOn.get(detail.prompt_id);
  queuedOn.delete(detail.prompt_id);
  if (!wantsBadges()) return;
  try {
    badges.add(await finishedRun(http, detail.prompt_id, wait), key);
  } catch (error) {
    console.warn("[Headroom] no badges for this run:", error.message);
  }
}

function onOom({ detail }) {
  panel.refresh();
  const message = oomMessage(detail, words());
  if (message) notify(message.severity, message.summary, message.detail);
}

/** Once the node that shows the text has it. */
async function onExecuted({ detail: { node, display_node: shown, output } }) {
  if (!output) return;
  await frame();
  previews.update({ [node]: output, [shown ?? node]: output });
}

function addStyles() {
  const href = new URL("./headroom.css", import.meta.url).href;
  document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href }));
}

/** Our texts in the user's language, as far as this frontend can tell either; null for English. */
async function ownTexts() {
  try {
    const locale = setting("Comfy.Locale");
    return locale === "en" ? null : ((await api.getCustomNodesI18n())[locale] ?? null);
  } catch (error) {
    console.warn("[Headroom] no translations:", error.message);
    return null;
  }
}

const texts = await ownTexts();
const commands = [
  { id: PURGE, label: "Purge VRAM (Headroom)", menubarLabel: "Purge VRAM", icon: "pi pi-gauge", function: purge },
  {
    id: SHOW_PANEL,
    label: "Show memory (Headroom)",
    icon: "pi pi-gauge",
    function: () => app.extensionManager.sidebarTab.toggleSidebarTab(TAB),
  },
];

app.registerExtension({
  name: "Headroom",
  settings: translateSettings(settings(showBadges), texts),
  commands: translateCommands(commands, texts),
  // Not Ctrl+Shift+F: Chinese input methods switch to traditional characters with that.
  keybindings: [{ combo: { key: "h", ctrl: true, shift: true }, commandId: PURGE }],
  menuCommands: [{ path: ["Edit"], commands: [PURGE] }],
  setup() {
    addStyles();
    app.extensionManager.registerSidebarTab(tab);
    api.addEventListener("execution_start", ({ detail }) => {
      queuedOn.set(detail.prompt_id, badges.key());
      panel.refresh();
    });
    for (const end of ENDS) api.addEventListener(end, onEnd);
    api.addEventListener("executed", onExecuted);
    api.addEventListener("headroom.oom", onOom);
    rescue.setup();
    api.addEventListener("headroom.rescue", rescue.onEvent);
  },
  addCustomNodeDefs: (defs) => translateNodes(defs, texts),
  nodeCreated(node) {
    translateSlots(node, texts);
    widen(node);
    applyDefaults(node, setting);
    addBadge(node);
  },
  onNodeOutputsUpdated: (outputs) => previews.update(outputs),
  afterConfigureGraph() {
    badges.update(false);
    wait(SETTLED_MS).then(() => badges.update());
  },
});
