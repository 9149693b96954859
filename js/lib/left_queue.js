// The prompts of a server that ended before they had run: what the page says of them at its start.
import { h, redraw } from "./dom.js";
import { reasonText } from "./http.js";

export const keepQueueSetting = {
  id: "Headroom.Server.KeepQueue",
  category: ["Headroom", "Server", "KeepQueue"],
  name: "Keep the queue in a file, so that it outlives a server that is killed",
  tooltip: "Acts when ComfyUI starts. HEADROOM_QUEUE in the server's environment wins.",
  type: "boolean",
  defaultValue: true,
};

/** @param {Say} t */
const title = (t) => t("ComfyUI ended before its queue was done");

/** Shows what was left, with its two buttons, until somebody has decided. */
export function createLeftQueue({ http, words, notify }) {
  let found = null;
  const box = h("div.headroom-toast.headroom-left", { role: "alert", hidden: true });

  function draw() {
    const t = words();
    box.hidden = !found?.prompts.length;
    redraw(box, () => (box.hidden ? [] : [
      h("b", {}, title(t)),
      h("p", {}, t.said(found.said, found.text)),
      h("div.headroom-line", {}, button("queue again", t("Queue them again")), button("discard", t("Discard"))),
    ]));
  }

  function button(action, label) {
    const primary = action === "discard" ? "" : ".headroom-primary";
    const attributes = { type: "button", "data-focus": action, onclick: () => decide(action) };
    return h(`button.headroom-button${primary}`, attributes, label);
  }

  async function decide(action) {
    const t = words();
    for (const pressed of box.querySelectorAll("button")) pressed.disabled = true;
    try {
      const { queued, refused = [] } = await http.decideQueue(action);
      if (queued) notify("success", title(t), t("{count} queued again.", { count: queued.length }));
      for (const { prompt_id: id, error } of refused) {
        notify("warn", title(t), t("Prompt {id} is not queued again: ComfyUI says {error}", { id, error }));
      }
    } catch (error) {
      notify("warn", title(t), reasonText(error, t));
    }
    await look();
  }

  async function look() {
    try {
      found = await http.leftQueue();
    } catch (error) {
      console.warn("[Headroom] what an ended server left is not known:", reasonText(error, words()));
      found = null;
    }
    draw();
  }

  return {
    draw,
    look,
    /** Once, when the page is there; the styles are those of rescue.js. */
    setup() {
      document.body.append(box);
      return look();
    },
  };
}
