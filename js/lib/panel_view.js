// The panel as it is drawn: its parts from top to bottom, and which of them have to be drawn again.
import { h, redraw } from "./dom.js";
import { estimateView } from "./estimate_view.js";
import { heldPeaks, limitControl, memoryCards, reserveControl } from "./memory_view.js";
import { foreignLines, modelList } from "./models_view.js";
import { ramLines } from "./ram_view.js";
import { nodeTable } from "./node_table.js";
import { adviceView } from "./advice.js";
import { runActions, runDetails, runPicker } from "./run_view.js";
import { reportText } from "./say.js";

const NARROWEST = 120;

/**
 * The panel in `container`. It shows what is in `state` when `draw()` is called, in the language that
 * `words()` gives then; `actions` are what its buttons do.
 * @param {HTMLElement} container
 * @param {{ state: PanelState, words: () => Say, sorting: () => Sorting, actions: Actions }} options
 */
export function createView(container, { state, words, sorting, actions }) {
  /**
   * What each part shows, as text.
   * @type {Map<string, unknown>}
   */
  const drawn = new Map();
  const resize = new ResizeObserver(() => draw());
  let { t, parts } = build();

  /** The whole panel in the user's language, with nothing in its parts yet. */
  function build() {
    const now = words();
    const built = panelParts(now, pressPurge, actions.saveBugReport);
    drawn.clear();
    container.replaceChildren(built.root);
    resize.disconnect();
    resize.observe(built.parts.run);
    return { t: now, parts: built.parts };
  }

  async function pressPurge() {
    parts.purge.disabled = true;
    parts.purge.textContent = t("Purging…");
    await actions.purge();
  }

  function draw() {
    if (t !== words()) ({ t, parts } = build());
    show("error", state.trouble, () => (state.trouble ? [state.trouble] : []));
    show("report", state.report, () => (state.report ? [reportView(state.report, t)] : []));
    drawPurge();
    if (state.memory) drawMemory(state.memory);
  }

  /** Draw a part again only when what it shows has changed, so that hover and open parts stay. */
  function show(part, shown, content) {
    const key = typeof shown === "object" ? JSON.stringify(shown) : shown;
    if (drawn.get(part) === key) return;
    redraw(parts[part], content);
    drawn.set(part, key);
  }

  /** Why nothing can be asked of the server now; null when it can. */
  const off = () => state.trouble ?? (state.memory?.busy ? t("Not while a prompt runs or waits in the queue") : null);

  function drawPurge() {
    const reason = off();
    if (drawn.get("purge") === reason) return;
    drawn.set("purge", reason);
    parts.purge.disabled = Boolean(reason);
    parts.purge.textContent = t("Purge VRAM");
    parts.purge.title = reason ?? t("Unload every model, collect garbage and return the allocator's cache");
  }

  /** @param {Memory} memory */
  function drawMemory(memory) {
    const reason = off();
    show("lost", [memory.lost, memory.stuck], () => [
      ...(memory.stuck ? [h("p.headroom-oom", { "data-stuck": "", role: "status" }, t.said(memory.stuck.said, memory.stuck.text))] : []),
      ...(memory.lost ?? []).map((one) => h("p.headroom-quiet", {}, t.said(one.said, one.text))),
    ]);
    show("memory", [memory.devices, memory.ram, memory.peaks], () => memoryCards(memory, t));
    show("held", [memory.peaks?.since], () => heldPeaks(memory, t, actions.resetPeaks));
    show("reserve", [memory.reserve_mib, memory.limit], () => [
      ...reserveControl(memory, t, actions.reserve), ...limitControl(memory, t, actions.limit),
    ]);
    show("ram", [memory.ram_held, memory.grows_over_runs], () => ramLines(memory, t));
    show("models", [memory.models, memory.foreign, reason], () => [
      ...modelList(memory, reason, t, actions.offload), ...foreignLines(memory, t),
    ]);
    show("estimate", [state.estimate, state.trouble], () => estimateView(state.estimate, state.trouble, t, actions.estimate));
    if (state.run) drawRun(state.run, Math.max(NARROWEST, parts.run.clientWidth));
    else drawNoRun();
  }

  function drawNoRun() {
    for (const part of ["picker", "advice", "nodes", "actions"]) show(part, "", () => []);
    show("run", "", () => [h("p.headroom-quiet", {}, t("No run yet. Queue a workflow and look here again."))]);
  }

  /**
   * @param {Run} run
   * @param {number} width
   */
  function drawRun(run, width) {
    const listed = state.runs.map((one) => [one.prompt_id, one.status]);
    const advice = state.advice.of === run.prompt_id ? state.advice.items : [];
    const events = [run.oom?.map((entry) => entry.recovered), run.actions?.length];
    const seen = [run.prompt_id, run.status, run.samples?.seconds.length, events, Boolean(run.ram_held), width];
    const options = { t, width, actions };
    show("picker", [listed, run.prompt_id, width], () => [runPicker(state.runs, run.prompt_id, options)]);
    show("run", seen, () => runDetails(run, options));
    // Not when the width changes: a form that is open adds a scrollbar, and somebody types into it.
    show("advice", [run.prompt_id, run.status, advice.length], () => [adviceView(run, advice, options)].filter(Boolean));
    show("nodes", [seen, sorting()], () => [nodeTable(run, sorting(), options)]);
    show("actions", [seen], () => runActions(run, t));
  }

  return {
    draw,
    /** Draw this part again next time, also when what it shows is the same. */
    forget: (part) => drawn.delete(part),
    isIn: (other) => other === container && container.hasChildNodes(),
    close() {
      resize.disconnect();
      container.replaceChildren();
    },
  };
}

/**
 * The panel's root, and the parts of it that are drawn again by their names.
 * @param {Say} t
 * @param {() => void} onPurge
 * @param {() => void} onBugReport
 */
function panelParts(t, onPurge, onBugReport) {
  const parts = {
    purge: h("button.headroom-button.headroom-primary", { type: "button", onclick: onPurge }),
    error: h("div.headroom-error", { role: "status" }),
    lost: h("div"),
    report: h("div"),
    memory: h("div.headroom-stack"),
    held: h("div"),
    reserve: h("div"),
    ram: h("div.headroom-stack"),
    models: h("div.headroom-stack", { role: "list", "aria-label": t("Loaded models") }),
    estimate: h("div.headroom-stack"),
    picker: h("div"),
    run: h("div.headroom-stack"),
    advice: h("div"),
    nodes: h("div"),
    actions: h("div"),
  };
  const { purge, error, lost, report, memory, held, reserve, ram, models, estimate, picker, run, advice, nodes, actions } = parts;
  const root = h(
    "div.headroom-panel",
    {},
    h("header.headroom-line", {}, h("h2", {}, "Headroom"), purge),
    error,
    lost,
    report,
    section(t("Memory"), memory, held, reserve, ram),
    section(t("Loaded models"), models),
    section(t("Open workflow"), estimate),
    section(t("Last runs"), picker, h("div.headroom-stack", {}, run, advice, nodes, actions)),
    h("button.headroom-button.headroom-bug", { type: "button", title: t("A file with versions, settings and the figures of the last runs; no prompt's text, no title, no path"), onclick: onBugReport }, t("Save a bug report")),
  );
  return { root, parts };
}

function section(title, ...content) {
  return h("section", {}, h("h3", {}, title), ...content);
}

/**
 * What a purge or an offload has told, folded up.
 * @param {Report} report
 * @param {Say} t
 */
function reportView(report, t) {
  const { headline, text } = reportText(report, t);
  const summary = h("summary", { "data-focus": "report" }, `${t("Report")}: ${headline}`);
  return h("details.headroom-report", {}, summary, h("pre", {}, text));
}
