// The only file that talks to the frontend: what it hands in here, js/lib/ works with.
import { api } from "../../scripts/api.js";
import { app } from "../../scripts/app.js";
import { createApplying } from "./lib/applying.js";
import { createBadges } from "./lib/badges.js";
import { createFrontend } from "./lib/frontend.js";
import { rootOf, shownNode, showNode } from "./lib/graph.js";
import { errorMessage, oomMessage } from "./lib/happened.js";
import { createHttp, finishedRun, messageOf, reasonText } from "./lib/http.js";
import { createLeftQueue } from "./lib/left_queue.js";
import { createPanel } from "./lib/panel.js";
import { saveReport } from "./lib/bug_report.js";
import { createRescue } from "./lib/rescue.js";
import { reportText, speakers, wordsOf } from "./lib/say.js";
import { applyDefaults, nameThePack, OFF, REFRESH_SECONDS, settings, SHOW_BADGES, showNoChoice, widen } from "./lib/settings.js";
import { translateCommands, translateNodes, translateSettings, translateSlots } from "./lib/translate.js";
import { WHY } from "./lib/wires.js";

const TAB = "headroom";
const PURGE = "Headroom.Purge";
const SHOW_PANEL = "Headroom.ShowPanel";
const ENDS = ["execution_success", "execution_error", "execution_interrupted"];

const frontend = createFrontend(app, window);
const { setting } = frontend;
const i18n = await translations();
const speakerOf = speakers(i18n);
/** What says the page's texts in the language that the user has chosen by now. */
const words = () => speakerOf(setting("Comfy.Locale"));
const http = createHttp((path, options) => api.fetchApi(path, options));
/** So long after a workflow has been loaded its tab is the active one. */
const SETTLED_MS = 300;
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const queuedOn = new Map();
let badgesShown = null;

function notify(severity, summary, detail) {
  app.extensionManager.toast.add({ severity, summary, detail, life: 6000 });
}

/** A page that nobody sees draws no frames; a busy machine's may take long, and sizes are known only then. */
const frame = () => Promise.race([new Promise((done) => requestAnimationFrame(done)), wait(document.hidden ? 100 : 500)]);

const apply = createApplying({
  words,
  notify,
  page: () => ({
    canvas: app.canvas,
    prompt: frontend.prompt,
    create: frontend.createNode,
    undo: () => app.extensionManager.command.execute("Comfy.Undo"),
    frame,
    wait,
    growth: frontend.growth,
  }),
});

const rescue = createRescue({ http, words, notify });
const leftQueue = createLeftQueue({ http, words, notify });

const panel = createPanel({
  http,
  words,
  notify,
  interval: () => Number(setting(REFRESH_SECONDS)) || 2,
  pickNode,
  prompt: frontend.prompt,
  purge,
  apply,
  rescue: rescue.ask,
  save: (report) => saveReport(report, {
    frontend: frontend.version(),
    settings: Object.fromEntries(settings(showBadges).map(({ id }) => [id, setting(id)])),
  }),
});

async function purge() {
  try {
    const report = await http.purge();
    notify("success", words()("Purge VRAM"), reportText(report, words()).headline);
    return report;
  } catch (error) {
    notify("warn", words()("Purge VRAM"), reasonText(error, words()));
    return null;
  }
}

function pickNode({ node_id: id, display_node_id: shown, class_type: classType }) {
  const own = String(shown ?? id) === String(id);
  const node = shownNode(rootOf(app.canvas.graph), shown ?? id, own ? classType : null);
  if (!node) {
    notify("info", "Headroom", words()(WHY.gone, { id: shown ?? id }));
    return;
  }
  showNode(app.canvas, node, frame);
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
  type: /** @type {const} */ ("custom"),
  revision: 0,
  render: (container) => panel.mount(container),
  destroy: () => panel.unmount(),
};

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
  path: frontend.workflowPath,
  shown: wantsBadges,
  words,
  room: frontend.badgeRoom,
  redraw() {
    frontend.tabOf(tab).revision += 1;
    app.canvas?.setDirty(true, true);
  },
});

function addBadge(node) {
  frontend.addBadge(node, () => {
    void frontend.tabOf(tab).revision;
    return badges.of(node);
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
    console.warn("[Headroom] no badges for this run:", messageOf(error));
  }
}

function onOom({ detail }) {
  panel.refresh();
  const message = oomMessage(detail, words());
  if (message) notify(message.severity, message.summary, message.detail);
}

/** A prompt was stopped before RAM ran out. */
function onRam({ detail: { text, said } }) {
  const t = words();
  notify("error", t("Stopped before RAM ran out"), t.said(said, text));
}

/** The user has chosen another language. */
function onLanguage() {
  panel.draw();
  rescue.draw();
  leftQueue.draw();
  badges.update();
}

function addStyles() {
  const href = new URL("./headroom.css", import.meta.url).href;
  document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href }));
}

/** What all packs say, by language; nothing where that cannot be had. */
async function translations() {
  try {
    return await api.getCustomNodesI18n();
  } catch (error) {
    console.warn("[Headroom] no translations:", messageOf(error));
    return {};
  }
}

/** Names and tooltips in the user's language, as far as this frontend can tell either; null for English. */
const texts = wordsOf(i18n, setting("Comfy.Locale"));
/** Turned off, only the nodes' words and starting values, and the setting that turns it on again. */
const off = setting(OFF) === true;
const commands = [
  { id: PURGE, label: "Purge VRAM (Headroom)", menubarLabel: "Purge VRAM", icon: "pi pi-gauge", function: purge },
  {
    id: SHOW_PANEL,
    label: "Show memory (Headroom)",
    icon: "pi pi-gauge",
    function: () => app.extensionManager.command.execute(`Workspace.ToggleSidebarTab.${TAB}`),
  },
];

app.registerExtension({
  name: "Headroom",
  settings: translateSettings(settings(showBadges), texts),
  commands: off ? [] : translateCommands(commands, texts),
  menuCommands: off ? [] : [{ path: ["Edit"], commands: [PURGE] }],
  setup() {
    if (off) return;
    addStyles();
    app.extensionManager.registerSidebarTab(tab);
    api.addEventListener("execution_start", ({ detail }) => {
      queuedOn.set(detail.prompt_id, badges.key());
      panel.refresh();
    });
    for (const end of ENDS) api.addEventListener(end, onEnd);
    api.addEventListener("status", panel.refresh); // of runs that others have queued, a page is told no more
    api.addEventListener("headroom.oom", onOom);
    api.addEventListener("headroom.error", ({ detail }) => {
      const message = errorMessage(detail, words());
      notify(message.severity, message.summary, message.detail);
    });
    api.addEventListener("headroom.ram", onRam);
    rescue.setup();
    leftQueue.setup();
    api.addEventListener("headroom.rescue", rescue.onEvent);
    api.addEventListener("headroom.queue", leftQueue.look); // perhaps decided in another window
    // Perhaps another server answers now: it has its own runs, and what the one before it left.
    for (const look of [panel.refresh, leftQueue.look, rescue.look]) api.addEventListener("reconnected", look);
    frontend.onLanguage(onLanguage);
  },
  addCustomNodeDefs: (defs) => translateNodes(defs, texts),
  nodeCreated(node) {
    translateSlots(node, texts);
    widen(node);
    showNoChoice(node);
    applyDefaults(node, setting);
    nameThePack(node);
    if (!off) addBadge(node);
  },
  afterConfigureGraph() {
    badges.update(false);
    wait(SETTLED_MS).then(() => badges.update());
  },
});
