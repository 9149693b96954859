// The panel: what it knows, when it asks, and what its buttons do.
import { messageOf, reasonText, Refused } from "./http.js";
import { nameOf } from "./models_view.js";
import { createView } from "./panel_view.js";
import { createPoll } from "./poll.js";
import { firstColumn, isRunning, withGuardsNamed } from "./runs.js";
import { reportText } from "./say.js";

const RUNS_LISTED = 20;

/**
 * `mount(container)` shows the panel and starts asking; `unmount()` ends both. `http` are the
 * routes, `words()` the texts, `interval()` the seconds between two questions, `pickNode(node)`
 * finds a node on the canvas, `prompt()` makes that of the open workflow, `notify(severity, summary, detail)` shows a message,
 * `apply(advice, run)` puts pieces of advice on a run into the workflow, `rescue(id)` queues a
 * prompt again that ran out of memory, `save(report)` gives a bug report to the user as a file.
 */
export function createPanel({ http, words, interval, pickNode, prompt, notify, purge, apply, rescue, save }) {
  /** @type {PanelState} */
  const state = { memory: null, runs: [], run: null, advice: { of: null, items: [] }, chosen: null, sort: null, trouble: null, report: null, estimate: null };
  /** @type {ReturnType<typeof createView> | null} */
  let view = null;
  const visible = () => document.visibilityState === "visible";
  const poll = createPoll({ ask, interval, visible });
  const wake = () => poll.wake();
  const draw = () => view?.draw();

  async function ask() {
    const due = runsDue;
    runsDue = false; // before the first question: what happens while one is under way makes it due again
    try {
      const memory = await http.memory();
      state.memory = memory;
      runsDue ||= memory.busy;
      if (memory.busy || due || (state.run && isRunning(state.run))) await askRuns();
      state.trouble = null;
    } catch (error) {
      runsDue ||= due;
      state.trouble = runSentence(error);
    }
    draw();
  }

  const t = (template, values) => words()(template, values);
  const sentence = (error) => reasonText(error, words());

  /** The open workflow; Refused with what the page or a pack in it says where that cannot be queued. */
  async function openPrompt() {
    const refused = (text) => new Refused(0, text, text);
    const open = await prompt().catch((error) => { throw refused(messageOf(error)); });
    if (!Object.keys(open).length) throw refused(t("There is no node on the canvas that can run."));
    return open;
  }

  /** The same where a run was asked for. */
  function runSentence(error) {
    return error instanceof Refused && error.status === 404 ? t("This run is no longer kept: the server remembers only the newest ones.") : sentence(error);
  }

  /** @type {string | null} */
  let wanted = null; // the run that was chosen last
  /** Runs are asked for when the panel opens, while a prompt runs, and once after it. */
  let runsDue = true;

  async function askRuns() {
    const before = wanted;
    state.runs = await http.runs(RUNS_LISTED);
    const listed = state.runs.some((run) => run.prompt_id === state.chosen);
    const id = listed ? state.chosen : state.runs[0]?.prompt_id;
    if (!id) state.run = null;
    else if (state.run?.prompt_id !== id || isRunning(state.run)) {
      const found = await oneRun(id);
      if (wanted !== before) return; // another one has been chosen since
      state.run = found;
    }
    await askAdvice();
  }

  const oneRun = async (id) => withGuardsNamed(await http.run(id), words());

  /** Advice is asked for once, when a run is over; none where it is refused. */
  async function askAdvice() {
    const { run } = state;
    if (!run || isRunning(run) || state.advice.of === run.prompt_id) return;
    let items = [];
    try {
      items = await http.advice(run.prompt_id);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
    }
    if (state.run?.prompt_id === run.prompt_id) state.advice = { of: run.prompt_id, items };
  }

  /** Tell the user what did not work; `part` of the panel shows again what holds. */
  function tell(summary, text, part) {
    notify("warn", summary, text);
    view?.forget(part);
  }

  /** @type {Actions} */
  const actions = {
    pickNode,
    rescue,
    apply,

    async choose(promptId) {
      wanted = promptId;
      try {
        const run = await oneRun(promptId);
        if (wanted !== promptId) return; // another one has been chosen since
        state.run = run;
        state.chosen = promptId === state.runs[0]?.prompt_id ? null : promptId;
        await askAdvice();
        draw();
      } catch (error) {
        if (wanted !== promptId) return;
        tell(t("Last runs"), runSentence(error), "picker"); // its choice is not what is shown
        draw();
        runsDue = true;
        await poll.wake();
      }
    },

    /** What is needed for a run to fit into so many GiB; null after a message about an error. */
    async plan(run, gib) {
      try {
        return await http.advice(run.prompt_id, gib);
      } catch (error) {
        notify("warn", t("Make it fit …"), runSentence(error));
        return null;
      }
    },

    sortBy(key) {
      const now = sorting();
      state.sort = { key, descending: now.key === key ? !now.descending : key !== "title" };
      draw();
    },

    async offload(model) {
      try {
        const report = await http.offload(model.id);
        state.report = report;
        const summary = t("Offload {name}", { name: nameOf(model) });
        notify("success", summary, reportText(report, words()).headline);
      } catch (error) {
        tell(t("Offload"), sentence(error), "models");
      }
      await poll.wake();
    },

    async reserve(amount) {
      try {
        await http.reserve(amount);
      } catch (error) {
        tell(t("Leave to others"), sentence(error), "reserve");
      }
      await poll.wake();
    },

    async limit(size) {
      try {
        await http.limit(size);
      } catch (error) {
        tell(t("VRAM limit"), sentence(error), "reserve");
      }
      await poll.wake();
    },

    async resetPeaks() {
      try {
        await http.resetPeaks();
      } catch (error) {
        notify("warn", t("Reset"), sentence(error));
      }
      await poll.wake();
    },

    async estimate() {
      try {
        state.estimate = { ...(await http.estimate(await openPrompt())), at: Date.now() / 1000 };
      } catch (error) {
        notify("warn", t("Will it fit this card?"), sentence(error));
      }
      draw();
    },

    async saveBugReport() {
      try {
        save(await http.bugReport());
      } catch (error) {
        notify("warn", t("Save a bug report"), sentence(error));
      }
    },

    /** `purge()` has told the user what did not work, and then gives null. */
    async purge() {
      state.report = (await purge()) ?? state.report;
      view?.forget("purge");
      await poll.wake();
    },
  };

  const sorting = () => state.sort ?? { key: firstColumn(state.run), descending: true };

  return {
    mount(into) {
      if (view?.isIn(into)) return;
      this.unmount();
      view = createView(into, { state, words, sorting, actions });
      runsDue = true;
      document.addEventListener("visibilitychange", wake);
      poll.start();
    },
    unmount() {
      poll.stop();
      document.removeEventListener("visibilitychange", wake);
      view?.close();
      view = null;
    },
    /** A run has begun or ended, or memory has run out: look at once, if anybody is looking. */
    refresh() {
      runsDue = true;
      return view ? poll.wake() : undefined;
    },
    /** Draw again what has changed: the user's language, for example. */
    draw,
  };
}
