// The panel's part about models: the loaded ones, and what other packs hold.
import { h } from "./dom.js";
import { mib } from "./format.js";

/**
 * The loaded models, the largest on the GPU first, each with a button; `off` says why it is off.
 * @param {Memory} memory
 * @param {string | null} off
 * @param {Say} t
 */
export function modelList(memory, off, t, onOffload) {
  if (!memory.models.length) return [h("p.headroom-quiet", {}, t("No model is loaded."))];
  return [...memory.models]
    .sort((one, other) => other.loaded_mib - one.loaded_mib || other.total_mib - one.total_mib)
    .map((model) => modelRow(model, off, t, onOffload));
}

/**
 * What other packs hold that ComfyUI does not manage.
 * @param {Memory} memory
 * @param {Say} t
 */
export function foreignLines(memory, t) {
  return (memory.foreign ?? []).map(({ pack, classes, mib: held }) => {
    const values = { held: mib(held), pack, classes: classes.join(t(", ")) };
    const text = pack ? t("{held} held by {pack} ({classes}): not managed by ComfyUI", values)
      : t("{held} of {classes}: not managed by ComfyUI", values);
    return h("p.headroom-quiet", { "data-foreign": pack ?? "" }, text);
  });
}

/** What a model is called: its file where that is known. */
export const nameOf = (model) => model.file ?? model.class;

function modelRow(model, off, t, onOffload) {
  const share = model.total_mib > 0 ? Math.min(100, (model.loaded_mib / model.total_mib) * 100) : 0;
  return h(
    "div.headroom-model",
    { "data-model": model.id, role: "listitem" },
    h(
      "div.headroom-model-text",
      {},
      h("div", {}, h("strong", { title: model.class }, nameOf(model)), h("em", {}, t(model.kind))),
      h("div.headroom-quiet", {}, amountOnGpu(model, t)),
      h("div.headroom-thin", {}, h("span.headroom-part-models", { style: { width: `${share}%` } })),
    ),
    h(
      "button.headroom-button",
      {
        type: "button",
        "data-focus": `offload ${model.id}`,
        disabled: Boolean(off) || model.loaded_mib <= 0,
        title: off || t("Take this model off the GPU; it comes back when something uses it"),
        "aria-label": t("Offload {name}", { name: nameOf(model) }),
        onclick: (event) => {
          event.currentTarget.disabled = true;
          onOffload(model);
        },
      },
      t("Offload"),
    ),
  );
}

function amountOnGpu(model, t) {
  const values = { loaded: mib(model.loaded_mib), total: mib(model.total_mib) };
  if (model.loaded_mib <= 0) return t("{total} in RAM", values);
  return values.loaded === values.total ? t("{total} on the GPU", values) : t("{loaded} of {total} on the GPU", values);
}
