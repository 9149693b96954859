// A prompt that ran out of memory: the offer to run it again, and what became of it.
import { h } from "./dom.js";
import { reasonText } from "./http.js";
import { saidText } from "./said.js";

const ASKED = "headroom-rescue";

/** The two settings; the server reads them with every prompt, so nothing here has to act on them. */
export const rescueSettings = [
  {
    id: "Headroom.Rescue.AfterOutOfMemory",
    category: ["Headroom", "Rescue", "AfterOutOfMemory"],
    name: "After an out-of-memory error",
    tooltip: "Runs only what had failed or not run yet, with OOM Guard; once for each prompt.",
    type: "combo",
    options: ["offer to run it again", "run it again", "nothing"],
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
export const failureText = (failure, words) => saidText(failure.said, failure.text, words);

/** What the event `headroom.rescue` means: an offer, or a message {severity, summary, detail}. */
export function rescueMessage(event, words) {
  const { failure } = event;
  const detail = failureText(failure, words);
  if (event.rescued_from) return { severity: "error", summary: words.rescueTwice, detail };
  if (event.rescued_as) return { severity: "info", summary: words.rescueRuns, detail };
  if (failure.can_rescue) return { offer: true, summary: words.rescueTitle, detail };
  return { severity: "warn", summary: words.rescueTitle, detail };
}

/** The part of a run's entry in the panel; null for a run that memory had nothing to do with. */
export function rescueEntry(run, words) {
  const { failure } = run;
  if (!failure && !run.rescued_from) return null;
  return h(
    "div.headroom-rescue",
    { "data-rescue": run.prompt_id },
    run.rescued_from && !failure ? h("p", {}, words.rescueSecond) : null,
    failure ? h("p", {}, failureText(failure, words)) : null,
    failure?.can_rescue ? button(run.prompt_id, words) : null,
  );
}

function button(promptId, words) {
  const ask = (event) => {
    event.target.disabled = true;
    event.target.dispatchEvent(new CustomEvent(ASKED, { bubbles: true, detail: promptId }));
  };
  return h("button.headroom-button.headroom-primary", { type: "button", onclick: ask }, words.rescueButton);
}

/** Shows offers and messages, and passes on what is asked for here and in the panel. */
export function createRescue({ http, words, notify }) {
  const offers = new Map();
  let stack = null;

  function close(promptId) {
    offers.get(promptId)?.remove();
    offers.delete(promptId);
  }

  function offer(promptId, { summary, detail }) {
    close(promptId);
    const texts = words();
    const dismiss = { type: "button", "aria-label": texts.rescueClose, onclick: () => close(promptId) };
    const toast = h(
      "div.headroom-toast.headroom-rescue",
      { role: "alert", "data-offer": promptId },
      h("header.headroom-line", {}, h("b", {}, summary), h("button.headroom-close", dismiss, "✕")),
      h("p", {}, detail),
      button(promptId, texts),
    );
    offers.set(promptId, toast);
    stack.append(toast);
  }

  async function ask({ target, detail: promptId }) {
    try {
      await http.rescue(promptId);
      close(promptId);
    } catch (error) {
      target.disabled = false;
      notify("warn", words().rescueTitle, reasonText(error, words()));
    }
  }

  return {
    /** Once, when the page is there. */
    setup() {
      const href = new URL("../rescue.css", import.meta.url).href;
      document.head.append(h("link", { rel: "stylesheet", href }));
      stack = h("div.headroom-toasts");
      document.body.append(stack);
      document.addEventListener(ASKED, ask);
    },
    onEvent({ detail: event }) {
      const message = rescueMessage(event, words());
      if (message.offer) return offer(event.prompt_id, message);
      close(event.prompt_id);
      return notify(message.severity, message.summary, message.detail);
    },
  };
}
