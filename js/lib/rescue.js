// A prompt that ran out of memory: the offer to run it again, and what became of it.
import { h, redraw } from "./dom.js";
import { reasonText } from "./http.js";

const MOST_OFFERS = 50; // as many runs as a server keeps

/** The two settings; the server reads them with every prompt, so nothing here has to act on them. */
export const rescueSettings = [
  {
    id: "Headroom.Rescue.AfterOutOfMemory",
    category: ["Headroom", "Rescue", "AfterOutOfMemory"],
    name: "After an out-of-memory error",
    tooltip: "Runs only what had failed or not run yet, with OOM Guard; once for each prompt.",
    type: "combo",
    // Newer frontends cut a longer text; the value is the one that settings have kept from the first.
    options: [{ text: "offer a rerun", value: "offer to run it again" }, "run it again", "nothing"],
    defaultValue: "offer to run it again",
  },
  {
    id: "Headroom.Rescue.GuardEveryRun",
    category: ["Headroom", "Rescue", "GuardEveryRun"],
    name: "Guard every run",
    tooltip: "Puts an OOM Guard before every node that uses a model; your workflow stays as it is.",
    type: "boolean",
    defaultValue: false,
  },
];

/** What the server says about a prompt that ran out of memory, in the reader's language. */
export const failureText = (failure, t) => t.said(failure.said, failure.text);

/**
 * What the event `headroom.rescue` means: an offer, or a message {severity, summary, detail}.
 * @param {{ prompt_id: string, failure: Failure, rescued_as?: string | null, rescued_from?: string | null }} event
 * @param {Say} t
 */
export function rescueMessage(event, t) {
  const { failure } = event;
  const detail = failureText(failure, t);
  const what = title(failure, t);
  if (event.rescued_from) return { severity: "error", summary: t("{what} in the rerun as well", { what }), detail };
  if (event.rescued_as) return { severity: "info", summary: t("{what}: it runs again with OOM Guard", { what }), detail };
  if (failure.can_rescue) return { offer: true, summary: what, detail };
  return { severity: "warn", summary: what, detail };
}

/** Whether the server makes this offer no longer; a run that is older than all that it keeps may still be known. */
export function isGone(promptId, runs) {
  const run = runs.find((one) => one.prompt_id === promptId);
  return run ? !run.failure?.can_rescue : runs.length < MOST_OFFERS;
}

/** What happened to it: no error where the server stopped it in time. */
const title = (failure, t) => (failure.stopped ? t("Stopped before RAM ran out") : t("Out of memory"));

/**
 * The part of a run's entry in the panel; null for a run that memory had nothing to do with.
 * @param {Run} run
 * @param {Say} t
 */
export function rescueEntry(run, t, onRescue) {
  const { failure } = run;
  if (!failure && !run.rescued_from) return null;
  return h(
    "div.headroom-rescue",
    { "data-rescue": run.prompt_id },
    run.rescued_from && !failure ? h("p", {}, t("This is the rerun of a run that did not end well.")) : null,
    failure ? h("p", {}, failureText(failure, t)) : null,
    failure?.can_rescue ? button(run.prompt_id, t, onRescue) : null,
  );
}

/**
 * `onRescue(id)` tells, once the server has answered, whether the prompt runs again.
 * @param {string} promptId
 * @param {Say} t
 * @param {(promptId: string) => Promise<boolean>} onRescue
 */
function button(promptId, t, onRescue) {
  const press = async ({ currentTarget: pressed }) => {
    pressed.disabled = true;
    pressed.disabled = await onRescue(promptId);
  };
  const attributes = { type: "button", "data-focus": `rescue ${promptId}`, onclick: press };
  return h("button.headroom-button.headroom-primary", attributes, t("Run again with OOM Guard"));
}

/** Shows offers, all in one box, and messages; `ask(id)` queues a prompt again. */
export function createRescue({ http, words, notify }) {
  /**
   * The failures that are offered, by prompt, the newest last.
   * @type {Map<string, Failure>}
   */
  const offers = new Map();
  const box = h("div.headroom-toast", { role: "alert", "aria-atomic": "false", hidden: true });

  function draw() {
    const t = words();
    box.hidden = !offers.size;
    redraw(box, () => (offers.size ? [heading(t), list(t)] : []));
  }

  function heading(t) {
    const [failure] = offers.values();
    const text = offers.size > 1 ? t("{count} prompts can run again", { count: offers.size }) : title(failure, t);
    const attributes = { type: "button", "aria-label": t("Close"), "data-focus": "close", onclick: closeAll };
    return h("header.headroom-line", {}, h("b", {}, text), h("button.headroom-close", attributes, "✕"));
  }

  function list(t) {
    const entry = ([promptId, failure]) =>
      h("li.headroom-rescue", { "data-offer": promptId }, h("p", {}, failureText(failure, t)), button(promptId, t, ask));
    return h("ul", {}, [...offers].reverse().map(entry));
  }

  function closeAll() {
    offers.clear();
    draw();
  }

  function close(promptId) {
    if (offers.delete(promptId)) draw();
  }

  function offer(promptId, failure) {
    offers.delete(promptId);
    offers.set(promptId, failure);
    const [oldest] = offers.keys();
    if (offers.size > MOST_OFFERS) offers.delete(oldest);
    draw();
  }

  async function ask(promptId) {
    try {
      await http.rescue(promptId);
      close(promptId);
      return true;
    } catch (error) {
      notify("warn", words()("It does not run again"), reasonText(error, words()));
      await look();
      return false;
    }
  }

  /** Close the offers that the server does not make any more; without an answer they stay. */
  async function look() {
    if (!offers.size) return;
    const runs = await http.runs(MOST_OFFERS).catch(() => null);
    for (const id of [...offers.keys()]) if (runs && isGone(id, runs)) close(id);
  }

  return {
    ask,
    draw,
    look,
    /** Once, when the page is there. */
    setup() {
      const href = new URL("../rescue.css", import.meta.url).href;
      document.head.append(h("link", { rel: "stylesheet", href }));
      document.body.append(box);
    },
    onEvent({ detail: event }) {
      const message = rescueMessage(event, words());
      if (message.offer) return offer(event.prompt_id, event.failure);
      close(event.prompt_id);
      return notify(message.severity, message.summary, message.detail);
    },
  };
}
