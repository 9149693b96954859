// Cards under a run: what to change, what that saves, and a button that does it. And "Make it fit …".
import { h } from "./dom.js";
import { mib } from "./format.js";
import { phrase } from "./say.js";

const SHOWN = 3;
const MIB = 1024;

/**
 * An amount of which only a range is known: [low, high] in MiB.
 * @param {number[]} range
 * @param {Say} t
 */
export function rangeText([low, high], t) {
  const [least, most] = [mib(low), mib(high)];
  if (least === most) return most;
  return low > 0 ? t("{low} to {high}", { low: least, high: most }) : t("up to {high}", { high: most });
}

/** What a kind of advice is called. */
const TITLES = {
  encode_to_cpu: phrase("Encode to CPU"),
  offload_after: phrase("Offload Model"),
  purge_between: phrase("Purge VRAM"),
  cast_bf16: phrase("Cast bf16"),
  oom_guard: phrase("OOM Guard"),
  other_process: phrase("Another program"),
  expandable_segments: phrase("Expandable segments"),
  gc_threshold: phrase("Allocator threshold"),
  reserve: phrase("Reserve"),
  error: phrase("The error"),
  ram_disk: phrase("Weights from disk"),
  ram_pinned: phrase("Less pinned RAM"),
  spill: phrase("A VRAM limit"),
  disk_reads: phrase("Weights in RAM"),
  ram_cache: phrase("No results in RAM"),
  ram_held: phrase("What held the RAM"),
  ram_frames: phrase("Fewer frames at once"),
  ram_models: phrase("One model after the other"),
  ram_headroom: phrase("More RAM kept free"),
  ram_without: phrase("Less kept in RAM"),
};

const titleOf = (item, t) => t(TITLES[item.kind] ?? item.kind);

/** Names of several pieces, each kind once. */
export function titlesOf(items, t) {
  return [...new Set(items.map((item) => titleOf(item, t)))].join(t(", "));
}

/**
 * The least and the most MiB that a run needs, also what it asked for in vain; null: unknown.
 * @param {Run} run
 */
export function needsOf({ peak_vram_mib: peak, peak_vram_at_most_mib: most, fits }) {
  if (peak === null) return null;
  return [peak, Math.max(peak, most ?? peak, fits?.smallest_mib[1] ?? peak)];
}

/**
 * Everything about advice under a run; null where there is none.
 * @param {Run} run
 * @param {Advice[]} advice
 * @param {{ t: Say, actions: Actions }} options
 */
export function adviceView(run, advice, options) {
  if (!advice.length) return null;
  const { t } = options;
  const cards = advice.map((item) => card(item, run, options));
  const rest = cards.slice(SHOWN);
  return h(
    "div.headroom-stack.headroom-advices",
    { "data-advice-of": run.prompt_id },
    h("h4", {}, t("What to change")),
    h("div.headroom-stack", { role: "list", "aria-label": t("What to change") }, cards.slice(0, SHOWN)),
    rest.length
      ? h("details", {}, h("summary", {}, t("{count} more", { count: rest.length })), h("div.headroom-stack", { role: "list" }, rest))
      : null,
    fitForm(run, options),
  );
}

/**
 * @param {Advice} item
 * @param {Run} run
 * @param {{ t: Say, actions: Actions }} options
 */
function card(item, run, { t, actions }) {
  const node = run.nodes.find(({ node_id: id }) => String(id) === String(item.node_ids?.[0]));
  const isKnown = item.saves_mib[1] > 0; // what it saves of the GPU's peak
  const saves = isKnown ? h("span", {}, t("Saves {range}", { range: rangeText(item.saves_mib, t) })) : null;
  return h(
    "div.headroom-card.headroom-advice",
    { "data-advice": item.id, role: "listitem" },
    h("div.headroom-line", {}, h("strong", {}, titleOf(item, t)), saves),
    h("p", {}, t.said(item.said, item.text)),
    isKnown ? h("p.headroom-quiet", {}, priceText(item, t)) : null,
    h(
      "div.headroom-buttons",
      {},
      item.edit ? button(t("Apply"), t("Put this into the workflow on the canvas; one undo takes it back"), titleOf(item, t), () => actions.apply([item], run)) : null,
      node ? button(t("Show"), null, titleOf(item, t), () => actions.pickNode(node)) : null,
    ),
  );
}

function button(text, title, about, onclick) {
  return h("button.headroom-button", { type: "button", title, "aria-label": `${text}: ${about}`, onclick }, text);
}

/**
 * What it costs, and how much it saved where it was applied and run.
 * @param {Advice} item
 * @param {Say} t
 */
function priceText(item, t) {
  const price = [item.changes_picture ? t("the picture can change") : t("the picture stays the same")];
  if (item.cost === "seconds") price.push(t("costs seconds"));
  if (item.measured_mib) price.push(t("It saved {saved}", { saved: mib(item.measured_mib.mib) }));
  return price.join(" · ");
}

/**
 * A form that asks for a size, says what the server would do for it, and does that.
 * @param {Run} run
 * @param {{ t: Say, actions: Actions }} options
 */
function fitForm(run, { t, actions }) {
  const needs = needsOf(run);
  if (!needs) return null;
  const answer = h("p", { role: "status" });
  const apply = h("button.headroom-button.headroom-apply", { type: "button", disabled: true }, t("Apply"));
  const wanted = Math.max(0.5, Math.floor((needs[0] / MIB) * 2) / 2);
  const size = h("input.headroom-size", {
    type: "number", min: 0.5, max: 1024, step: "any", value: wanted, "aria-label": t("GPU memory in GiB"),
  });
  let chosen = [];
  const update = async () => {
    const gib = Number(size.value);
    chosen = [];
    apply.disabled = true;
    if (!(gib > 0)) return;
    const items = await actions.plan(run, gib);
    if (Number(size.value) !== gib) return;
    if (!items) return answer.replaceChildren();
    chosen = items;
    answer.textContent = planText(items, needs, gib * MIB, t);
    apply.disabled = !chosen.length;
  };
  size.addEventListener("change", update);
  apply.addEventListener("click", () => actions.apply(chosen, run));
  return h(
    "details.headroom-fit",
    { ontoggle: (event) => event.currentTarget.open && update() },
    h("summary.headroom-button", {}, t("Make it fit …")),
    h("label.headroom-line", {}, h("span", {}, t("GPU memory in GiB")), size),
    answer,
    apply,
  );
}

/**
 * What a plan comes to, in words: what is done, and what the last step of it is expected to need.
 * @param {Advice[]} items
 * @param {number[]} needs
 * @param {number} into
 * @param {Say} t
 */
export function planText(items, needs, into, t) {
  const expects = items.at(-1)?.expected_mib ?? needs;
  const fits = expects[1] <= into;
  const values = { needs: rangeText(needs, t), expects: rangeText(expects, t), names: titlesOf(items, t) };
  if (!items.length) return fits ? t("It needs {needs} now, which fits already.", values) : t("It needs {needs}, and nothing here can be applied.", values);
  const risky = items.filter((item) => item.changes_picture);
  const picture = risky.length ? ` ${t("Changes the picture: {names}.", { names: titlesOf(risky, t) })}` : "";
  const plan = fits
    ? t("{names}: then the run may need {expects} instead of {needs}.", values)
    : t("Even with all of it ({names}) the run may need {expects}, which is more than asked for.", values);
  return plan + picture;
}
