// The panel: what it knows, when it asks, and which part it draws again.
import { h } from "./dom.js";
import { reasonText, Refused } from "./http.js";
import { heldPeaks, memoryCards, modelList, nameOf, reserveControl } from "./memory_view.js";
import { buildPanel } from "./panel_parts.js";
import { createPoll } from "./poll.js";
import { runDetails, runPicker } from "./run_view.js";
import { firstColumn, isRunning, withGuardsNamed } from "./runs.js";
import { reportText } from "./said.js";
import { fill } from "./words.js";

const RUNS_LISTED = 20;
const NARROWEST = 120;

/**
 * `mount(container)` shows the panel and starts asking; `unmount()` ends both. `http` are the
 * routes, `words()` the texts, `interval()` the seconds between two questions, `pickNode(node)`
 * finds a node on the canvas, `notify(severity, summary, detail)` shows a message,
 * `apply(advice, run)` puts pieces of advice on a run into the workflow.
 */
export function createPanel({ http, words, interval, pickNode, notify, purge, apply }) {
  const state = { memory: null, runs: [], run: null, advice: {}, chosen: null, sort: null, trouble: null };
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
      wasBusy = state.memory.busy;
      state.trouble = null;
    } catch (error) {
      state.trouble = runSentence(error);
    }
    draw();
  }

  const sentence = (error) => reasonText(error, words());

  /** The same where a run was asked for. */
  function runSentence(error) {
    return error instanceof Refused && error.status === 404 ? words().runGone : sentence(error);
  }

  /** Runs are asked for when the panel opens, while a prompt runs, and once after it. */
  let wasBusy = true;
  function runsMayHaveChanged() {
    return state.memory.busy || wasBusy || (state.run && isRunning(state.run));
  }

  async function askRuns() {
    state.runs = await http.runs(RUNS_LISTED);
    const listed = state.runs.some((run) => run.prompt_id === state.chosen);
    const id = listed ? state.chosen : state.runs[0]?.prompt_id;
    if (!id) state.run = null;
    else if (state.run?.prompt_id !== id || isRunning(state.run)) state.run = await oneRun(id);
    await askAdvice();
  }

  const oneRun = async (id) => withGuardsNamed(await http.run(id), words());

  /** Advice is asked for once, when a run is over; older servers have none. */
  async function askAdvice() {
    const { run } = state;
    if (!run || isRunning(run) || state.advice.of === run.prompt_id) return;
    let items = [];
    try {
      items = await http.advice(run.prompt_id);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
    }
    state.advice = { of: run.prompt_id, items };
  }

  async function choose(promptId) {
    try {
      state.run = await oneRun(promptId);
      state.chosen = promptId === state.runs[0]?.prompt_id ? null : promptId;
      await askAdvice();
      draw();
    } catch (error) {
      drawn.delete("picker"); // its choice is not what is shown, its list not what there is
      draw();
      notify("warn", words().runs, runSentence(error));
      wasBusy = true;
      await poll.wake();
    }
  }

  /** What is needed for a run to fit into so many GiB. */
  async function plan(run, gib) {
    try {
      return await http.advice(run.prompt_id, gib);
    } catch (error) {
      notify("warn", words().fitButton, runSentence(error));
      return null;
    }
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
      const summary = fill(words().offloadNamed, { name: nameOf(model) });
      notify("success", summary, reportText(report, words()).headline);
    } catch (error) {
      notify("warn", words().offload, sentence(error));
      drawn.delete("models");
    }
    await poll.wake();
  }

  async function reserve(amount) {
    try {
      await http.reserve(amount);
    } catch (error) {
      notify("warn", words().reserve, sentence(error));
      drawn.delete("reserve");
    }
    await poll.wake();
  }

  async function resetPeaks() {
    try {
      await http.resetPeaks();
    } catch (error) {
      notify("warn", words().heldReset, sentence(error));
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
    const { headline, text } = reportText(report, words());
    const summary = h("summary", {}, `${words().report}: ${headline}`);
    parts.report.replaceChildren(h("details.headroom-report", {}, summary, h("pre", {}, text)));
  }

  /** Draw a part again only when what it shows has changed, so that hover and focus stay. */
  function show(part, key, build) {
    if (!parts || drawn.get(part) === key) return;
    parts[part].replaceChildren(...build());
    drawn.set(part, key);
  }

  /** Why nothing can be asked of the server now; null when it can. */
  function off(texts) {
    return state.trouble ?? (state.memory?.busy ? texts.busyTip : null);
  }

  function draw() {
    if (!parts) return;
    const texts = words();
    show("error", state.trouble, () => (state.trouble ? [state.trouble] : []));
    drawPurge(texts);
    if (state.memory) drawMemory(texts);
  }

  function drawMemory(texts) {
    const { memory, runs, run } = state;
    const width = Math.max(NARROWEST, parts.run.clientWidth);
    const say = JSON.stringify;
    const reason = off(texts);
    show("memory", say([memory.devices, memory.ram, memory.peaks]), () => memoryCards(memory, texts));
    show("held", say([memory.peaks?.since]), () => heldPeaks(memory, texts, resetPeaks));
    show("reserve", say([memory.reserve_mib]), () => reserveControl(memory, texts, reserve));
    show("models", say([memory.models, reason]), () => modelList(memory, reason, texts, offload));
    const listed = runs.map((r) => [r.prompt_id, r.status, Math.round(r.seconds)]);
    show("picker", say([listed, run?.prompt_id, width]), () =>
      (run ? [runPicker(runs, run.prompt_id, { words: texts, width, onChoose: choose })] : []));
    const events = run && [run.oom?.map((entry) => entry.recovered), run.actions?.length];
    const advice = run && state.advice.of === run.prompt_id ? state.advice.items : [];
    const seen = run && say([run.prompt_id, run.status, run.samples?.seconds.length, events, sorting(), width, advice.length]);
    const onApply = (items) => apply(items, run);
    const onPlan = (gib) => plan(run, gib);
    const options = run && { words: texts, width, sort: sorting(), advice, onSort: sortBy, onPick: pickNode, onApply, onPlan };
    show("run", seen, () => (run ? runDetails(run, options) : [h("p.headroom-quiet", {}, texts.noRuns)]));
  }

  function drawPurge(texts) {
    const reason = off(texts);
    if (drawn.get("purge") === reason) return;
    drawn.set("purge", reason);
    parts.purge.disabled = Boolean(reason);
    parts.purge.textContent = texts.purge;
    parts.purge.title = reason ?? texts.purgeTip;
  }

  return {
    mount(into) {
      if (container === into && into.firstChild) return;
      this.unmount();
      container = into;
      const built = buildPanel(words(), purgeNow);
      parts = built.parts;
      into.replaceChildren(built.root);
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
    /** A run has begun or ended, or memory has run out: look at once, if anybody is looking. */
    refresh() {
      wasBusy = true;
      return parts ? poll.wake() : undefined;
    },
    isOpen: () => parts !== null,
  };
}
