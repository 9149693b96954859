// Cards under a run: what to change, what that saves, and a button that does it. And "Make it fit …".
import { h } from "./dom.js";
import { mib } from "./format.js";
import { kindText, saidText } from "./said.js";
import { fill } from "./words.js";

const SHOWN = 3;
const MIB = 1024;

/**
 * An amount of which only a range is known: [low, high] in MiB.
 * @param {number[]} range
 * @param {Words} words
 */
export function rangeText([low, high], words) {
  const [least, most] = [mib(low), mib(high)];
  if (least === most) return most;
  return low > 0 ? fill(words.adviceRange, { low: least, high: most }) : fill(words.adviceUpTo, { high: most });
}

/** The sentence of a piece of advice in the user's language, the server's own where it has none. */
export function adviceText(item, words) {
  if (item.said) return saidText(item.said, item.text, words);
  const values = { ...item.values };
  if (values.model) values.model = kindsIn(values.model, words);
  const said = saidText({ key: `advice_${values.sentence ?? item.kind}`, values }, item.text, words);
  return /\{\w+\}/.test(said) ? item.text : said;
}

/** Models without a file are called by their kind, which has a name in each language, and class. */
const kindsIn = (models, words) =>
  models.replace(/(^|, )([A-Za-z ]+)(?= \w+(?=, |$))/g, (_, joint, kind) => joint + kindText(kind, words));

export const titleOf = (item, words) => words[`title_${item.kind}`] ?? item.kind;

/** Names of several pieces, each kind once. */
export function titlesOf(items, words) {
  return [...new Set(items.map((item) => titleOf(item, words)))].join(words.rescueComma);
}

/**
 * What a run needs as it is: [low, high] in MiB, what it asked for in vain included; null: unknown.
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
 * @param {{ words: Words, actions: Actions }} options
 */
export function adviceView(run, advice, options) {
  if (!advice.length) return null;
  const { words } = options;
  const cards = advice.map((item) => card(item, run, options));
  const rest = cards.slice(SHOWN);
  return h(
    "div.headroom-stack.headroom-advices",
    { "data-advice-of": run.prompt_id },
    h("h4", {}, words.advice),
    h("div.headroom-stack", { role: "list", "aria-label": words.advice }, cards.slice(0, SHOWN)),
    rest.length
      ? h("details", {}, h("summary", {}, fill(words.adviceMore, { count: rest.length })), h("div.headroom-stack", { role: "list" }, rest))
      : null,
    fitForm(run, options),
  );
}

/**
 * @param {Advice} item
 * @param {Run} run
 * @param {{ words: Words, actions: Actions }} options
 */
function card(item, run, { words, actions }) {
  const node = run.nodes.find(({ node_id: id }) => String(id) === String(item.node_ids?.[0]));
  const isKnown = item.saves_mib[1] > 0; // what it saves of the GPU's peak
  const saves = !isKnown ? null : h("span", {}, fill(words.adviceSaves, { range: rangeText(item.saves_mib, words) }));
  return h(
    "div.headroom-card.headroom-advice",
    { "data-advice": item.id, role: "listitem" },
    h("div.headroom-line", {}, h("strong", {}, titleOf(item, words)), saves),
    h("p", {}, adviceText(item, words)),
    !isKnown ? null : h("p.headroom-quiet", {}, priceText(item, words)),
    h(
      "div.headroom-buttons",
      {},
      item.edit ? button(words.adviceApply, words.adviceApplyTip, titleOf(item, words), () => actions.apply([item], run)) : null,
      node ? button(words.adviceShow, null, titleOf(item, words), () => actions.pickNode(node)) : null,
    ),
  );
}

function button(text, title, about, onclick) {
  return h("button.headroom-button", { type: "button", title, "aria-label": `${text}: ${about}`, onclick }, text);
}

/**
 * What it costs, and how much it saved where it was applied and run.
 * @param {Advice} item
 * @param {Words} words
 */
function priceText(item, words) {
  const price = [item.changes_picture ? words.adviceOther : words.adviceSame];
  if (item.cost === "seconds") price.push(words.adviceSeconds);
  if (item.measured_mib) price.push(fill(words.adviceSaved, { saved: mib(item.measured_mib.mib) }));
  return price.join(" · ");
}

/**
 * A form that asks for a size, says what the server would do for it, and does that.
 * @param {Run} run
 * @param {{ words: Words, actions: Actions }} options
 */
function fitForm(run, { words, actions }) {
  const needs = needsOf(run);
  if (!needs) return null;
  const answer = h("p", { role: "status" });
  const apply = h("button.headroom-button.headroom-apply", { type: "button", disabled: true }, words.adviceApply);
  const wanted = Math.max(0.5, Math.floor((needs[0] / MIB) * 2) / 2);
  const size = h("input.headroom-size", {
    type: "number", min: 0.5, max: 1024, step: "any", value: wanted, "aria-label": words.fitInto,
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
    answer.textContent = planText(items, needs, gib * MIB, words);
    apply.disabled = !chosen.length;
  };
  size.addEventListener("change", update);
  apply.addEventListener("click", () => actions.apply(chosen, run));
  return h(
    "details.headroom-fit",
    { ontoggle: (event) => event.currentTarget.open && update() },
    h("summary.headroom-button", {}, words.fitButton),
    h("label.headroom-line", {}, h("span", {}, words.fitInto), size),
    answer,
    apply,
  );
}

/**
 * What a plan comes to, in words: what is done, and what the last step of it is expected to need.
 * @param {Advice[]} items
 * @param {number[]} needs
 * @param {number} into
 * @param {Words} words
 */
export function planText(items, needs, into, words) {
  const expects = items.at(-1)?.expected_mib ?? needs;
  const fits = expects[1] <= into;
  const values = { needs: rangeText(needs, words), expects: rangeText(expects, words), names: titlesOf(items, words) };
  if (!items.length) return fill(fits ? words.fitNone : words.fitNothing, values);
  const risky = items.filter((item) => item.changes_picture);
  const picture = risky.length ? ` ${fill(words.fitPicture, { names: titlesOf(risky, words) })}` : "";
  return fill(fits ? words.fitPlan : words.fitShort, values) + picture;
}
