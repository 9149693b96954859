// The panel's part about models: the loaded ones, what other packs hold, and who holds the RAM.
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

/**
 * Who holds the RAM of this server, and the node in which it grows with each run.
 * @param {Memory} memory
 * @param {Say} t
 */
export function ramLines(memory, t) {
  const { ram_held: held } = memory;
  const grows = (memory.grows_over_runs ?? []).map(({ title, display_node_id: id, holder, mib_a_run: grown, runs }) => {
    const values = { grown: mib(grown), title, id, holder, runs };
    const text = title ? t("RAM grows by {grown} with each run of {title} (#{id}, {runs} runs)", values)
      : holder ? t("RAM grows by {grown} with each run ({runs} runs): {holder} holds it", values)
        : t("RAM grows by {grown} with each run ({runs} runs); growth not traced", values);
    return h("p.headroom-oom", { "data-grows": id ?? "" }, text);
  });
  if (!held?.models) return grows;
  const packs = held.packs.map(({ pack, holder, mib: amount }) => [t("{pack}: {holder}", { pack, holder }), amount]);
  const models = held.models.flatMap((model) => [
    [nameOf(model), model.mib],
    [t("{name}, pinned of it", { name: nameOf(model) }), model.pinned_mib],
    [t("{name}, mapped from its file", { name: nameOf(model) }), model.mapped_mib],
  ]);
  const cached = held.cached.map(({ node_id: id, class_type: kind, mib: amount }) =>
    [kind ? t("cached results of {kind} (#{id})", { kind, id }) : t("cached results of earlier prompts"), amount]);
  const rest = [[t("other tensors"), held.other_tensors_mib], [t("the rest"), held.rest_mib], [t("swap or page file in use"), held.swap_used_mib]];
  const rows = [...packs, ...models, ...cached, ...rest].filter(([, amount]) => amount >= 1);
  const open = h("details.headroom-quiet", { "data-ram-held": "" }, h("summary", {}, t("Who holds the RAM of this server")),
    rows.map(([name, amount]) => h("div.headroom-line", {}, h("span", {}, name), h("b", {}, mib(amount)))));
  return [...grows, open];
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
