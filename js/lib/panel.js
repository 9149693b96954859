// The panel: what it knows, when it asks, and which part it draws again.
import { h } from "./dom.js";
import { memoryCards, modelList, reserveControl } from "./memory_view.js";
import { createPoll } from "./poll.js";
import { oomText, runDetails, runPicker } from "./run_view.js";
import { firstColumn, isRunning } from "./runs.js";
import { fill } from "./words.js";

const RUNS_LISTED = 20;
const NARROWEST = 220;

/**
 * `mount(container)` shows the panel and starts asking; `unmount()` ends both. `http` are the
 * routes, `words()` the texts, `interval()` the seconds between two questions, `pickNode(node)`
 * finds a node on the canvas, `notify(severity, summary, detail)` shows a message.
 */
export function createPanel({ http, words, interval, pickNode, notify, purge }) {
  const state = { memory: null, runs: [], run: null, chosen: null, sort: null };
  const drawn = new Map();
  let parts = null;
  let container = null;
  let resize = null;
  const visible = () => document.visibilityState === "visible";
  const poll = createPoll({ ask, interval, visible });
  const wake = () => poll.wake();

  async function ask() {
    try {
      state.memory = await http.memory();
      if (runsMayHaveChanged()) await askRuns();
      show("error", "", () => []);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      show("error", error.message, () => [fill(words().noAnswer, { error: error.message })]);
    }
    draw();
  }

  /** Runs are asked for when the panel opens, while a prompt runs, and once after it. */
  let wasBusy = true;
  function runsMayHaveChanged() {
    const changed = state.memory.busy || wasBusy || (state.run && isRunning(state.run));
    wasBusy = state.memory.busy;
    return changed;
  }

  async function askRuns() {
    state.runs = await http.runs(RUNS_LISTED);
    const listed = state.runs.some((run) => run.prompt_id === state.chosen);
    const id = listed ? state.chosen : state.runs[0]?.prompt_id;
    const known = state.run?.prompt_id === id && !isRunning(state.run);
    if (id && !known) state.run = await http.run(id);
    if (!id) state.run = null;
  }

  async function choose(promptId) {
    state.chosen = promptId === state.runs[0]?.prompt_id ? null : promptId;
    state.run = await http.run(promptId);
    draw();
  }

  function sortBy(key) {
    const same = sorting().key === key;
    state.sort = { key, descending: same ? !sorting().descending : key !== "title" };
    draw();
  }

  const sorting = () => state.sort ?? { key: firstColumn(state.run), descending: true };

  async function offload(model) {
    try {
      const report = await http.offload(model.id);
      showReport(report);
      notify("success", `${words().offload}: ${model.class}`, report.headline);
    } catch (error) {
      notify("warn", words().offload, error.message);
      drawn.delete("models");
    }
    await poll.wake();
  }

  async function reserve(amount) {
    try {
      await http.reserve(amount);
    } catch (error) {
      notify("warn", words().reserve, error.message);
      drawn.delete("reserve");
    }
    await poll.wake();
  }

  async function purgeNow() {
    parts.purge.disabled = true;
    parts.purge.textContent = words().purging;
    const report = await purge();
    if (report) showReport(report);
    drawn.delete("purge");
    await poll.wake();
  }

  function showReport(report) {
    if (!parts) return;
    const text = h("pre", {}, report.text);
    parts.report.replaceChildren(
      h("details.headroom-report", {}, h("summary", {}, `${words().report}: ${report.headline}`), text),
    );
  }

  /** Draw a part again only when what it shows has changed, so that hover and focus stay. */
  function show(part, key, build) {
    if (!parts || drawn.get(part) === key) return;
    drawn.set(part, key);
    parts[part].replaceChildren(...build());
  }

  function draw() {
    const { memory, runs, run } = state;
    if (!parts || !memory) return;
    const width = Math.max(NARROWEST, parts.run.clientWidth);
    const texts = words();
    const say = JSON.stringify;
    show("memory", say([memory.devices, memory.ram]), () => memoryCards(memory, texts));
    show("reserve", say([memory.reserve_mib]), () => reserveControl(memory, texts, reserve));
    show("models", say([memory.models, memory.busy]), () => modelList(memory, texts, offload));
    drawPurge(memory.busy, texts);
    const picker = say(runs.map((r) => [r.prompt_id, r.status, Math.round(r.seconds)]).concat([run?.prompt_id]));
    show("picker", picker, () => (run ? [runPicker(runs, run.prompt_id, texts, choose)] : []));
    const seen = run && say([run.prompt_id, run.status, run.samples?.seconds.length, sorting(), width]);
    const options = run && { words: texts, width, sort: sorting(), onSort: sortBy, onPick: pickNode };
    show("run", seen, () => (run ? runDetails(run, options) : [h("p.headroom-quiet", {}, texts.noRuns)]));
  }

  function drawPurge(busy, texts) {
    if (drawn.get("purge") === busy) return;
    drawn.set("purge", busy);
    parts.purge.disabled = busy;
    parts.purge.textContent = texts.purge;
    parts.purge.title = busy ? texts.busyTip : texts.purgeTip;
  }

  function build() {
    const texts = words();
    parts = {
      purge: h("button.headroom-button.headroom-primary", { type: "button", onclick: purgeNow }),
      error: h("div.headroom-error", { role: "status" }),
      report: h("div"),
      memory: h("div.headroom-stack"),
      reserve: h("div"),
      models: h("div.headroom-stack"),
      picker: h("div"),
      run: h("div.headroom-stack"),
    };
    const { purge: button, error, report, memory, reserve: left, models, picker, run } = parts;
    return h(
      "div.headroom-panel",
      {},
      h("header.headroom-line", {}, h("h2", {}, "Headroom"), button),
      error,
      report,
      section(texts.memory, memory, left),
      section(texts.loadedModels, models),
      section(texts.runs, picker, run),
    );
  }

  return {
    mount(into) {
      if (container === into && into.firstChild) return;
      this.unmount();
      container = into;
      into.replaceChildren(build());
      wasBusy = true;
      document.addEventListener("visibilitychange", wake);
      resize = new ResizeObserver(() => draw());
      resize.observe(parts.run);
      poll.start();
    },
    unmount() {
      poll.stop();
      document.removeEventListener("visibilitychange", wake);
      resize?.disconnect();
      drawn.clear();
      container?.replaceChildren();
      container = parts = resize = null;
    },
    /** A run has begun or ended: look at once, if anybody is looking. */
    refresh() {
      wasBusy = true;
      return parts ? poll.wake() : undefined;
    },
    isOpen: () => parts !== null,
  };
}

function section(title, ...content) {
  return h("section", {}, h("h3", {}, title), ...content);
}

/** The sentence of a toast for one recovery. */
export function oomMessage(event, words) {
  const node = `${event.title || event.class_type} #${event.display_node_id ?? event.node_id}`;
  const detail = oomText(event, node, words);
  return event.recovered
    ? { severity: "success", summary: words.oomRecovered, detail }
    : { severity: "warn", summary: words.oomTried, detail };
}
