// Who holds RAM: now, after a run, and what grows with each run.
import { h } from "./dom.js";
import { mib } from "./format.js";
import { nameOf } from "./models_view.js";

/**
 * Who holds the RAM of this server, and the node in which it grows with each run.
 * @param {Memory} memory
 * @param {Say} t
 */
export function ramLines(memory, t) {
  const grows = (memory.grows_over_runs ?? []).map(({ title, display_node_id: id, holder, mib_a_run: grown, runs }) => {
    const values = { grown: mib(grown), title, id, holder, runs };
    const text = title ? t("RAM grows by {grown} with each run of {title} (#{id}, {runs} runs)", values)
      : holder ? t("RAM grows by {grown} with each run ({runs} runs): {holder} holds it", values)
        : t("RAM grows by {grown} with each run ({runs} runs); growth not traced", values);
    return h("p.headroom-oom", { "data-grows": id ?? "" }, text);
  });
  return [...grows, ...holders(memory.ram_held, t("Who holds the RAM of this server"), t)];
}

/**
 * How little RAM was left in a run, and who held it after the run, where that was looked up.
 * @param {Run} run
 * @param {Say} t
 */
export function ramOfRun({ ram_low: low, ram_held: held }, t) {
  const told = (values) => t("Only {left} of {total} of RAM were left in this run", values);
  const least = low ? [h("p.headroom-oom", { "data-ram-low": "" }, told({ left: mib(low.least_left_mib), total: mib(low.total_mib) }))] : [];
  const parts = [...least, ...holders(held, t("Who held the RAM after this run"), t)];
  return parts.length ? h("div", {}, parts) : null;
}

function holders(held, title, t) {
  if (!held?.models) return [];
  const packs = held.packs.map(({ pack, holder, mib: amount }) => [t("{pack}: {holder}", { pack, holder }), amount]);
  const models = held.models.flatMap((model) => [
    [nameOf(model), model.mib],
    [t("{name}, pinned of it", { name: nameOf(model) }), model.pinned_mib],
    [t("{name}, mapped from its file", { name: nameOf(model) }), model.mapped_mib],
  ]);
  const cached = held.cached.map(({ node_id: id, class_type: kind, mib: amount }) =>
    [kind ? t("cached results of {kind} (#{id})", { kind, id }) : t("cached results of earlier prompts"), amount]);
  const rest = [
    [t("other tensors"), held.other_tensors_mib], [t("small objects of Python"), held.python_heap_mib],
    [t("the rest"), held.rest_mib], [t("swap or page file in use"), held.swap_used_mib],
  ];
  const rows = [...packs, ...models, ...cached, ...rest].filter(([, amount]) => amount >= 1);
  return [h("details.headroom-quiet", { "data-ram-held": "" }, h("summary", { "data-focus": title }, title),
    rows.map(([name, amount]) => h("div.headroom-line", {}, h("span", {}, name), h("b", {}, mib(amount)))))];
}
