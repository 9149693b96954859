// The lower half of the panel: which run, its timeline, what happened in it, and its nodes.
import { rangeText } from "./advice.js";
import { timeline } from "./chart.js";
import { h } from "./dom.js";
import { actionText, gaveUpLine, happened, loopTexts, oomLine } from "./happened.js";
import { ramOfRun } from "./ram_view.js";
import { rescueEntry } from "./rescue.js";
import { dayAndTime, mib, seconds, signedMib } from "./format.js";
import { NARROW } from "./node_table.js";
import { isRunning, namesOf, peakText, usedDevices } from "./runs.js";
import { phrase } from "./say.js";

const STATUSES = { running: phrase("running"), success: phrase("finished"), error: phrase("failed"), interrupted: phrase("interrupted") };
const SIGNS = { running: "…", success: "✓", error: "✕", interrupted: "■" };

/**
 * The list to choose a run from, the newest first.
 * @param {Run[]} runs
 * @param {string} selectedId
 * @param {Drawing} options
 */
export function runPicker(runs, selectedId, { t, width, actions }) {
  const text = width < NARROW ? shortText : optionText;
  const options = runs.map((run) =>
    h("option", { value: run.prompt_id, selected: run.prompt_id === selectedId }, text(run, t)),
  );
  return h(
    "select.headroom-select",
    { "aria-label": t("Last runs"), "data-focus": "picker", onchange: (event) => actions.choose(event.currentTarget.value) },
    options,
  );
}

/** Nothing that changes while a run goes on: a list that is drawn again closes under the pointer. */
function shortText(run) {
  const time = isRunning(run) ? [] : [seconds(run.seconds)];
  return [`${SIGNS[run.status] ?? ""} ${dayAndTime(run.started_at)}`, ...time].join(" · ");
}

function optionText(run, t) {
  const peak = run.peak_vram_mib === null || isRunning(run) ? [] : [mib(run.peak_vram_mib)];
  return [shortText(run), ...peak, t(STATUSES[run.status] ?? run.status)].join(" · ");
}

/**
 * Figures in large type: time, peak VRAM of each device, peak RAM; below a peak how much is new.
 * @param {Run} run
 * @param {Say} t
 */
function runFigures(run, t) {
  const figure = (key, name, text, added = null) =>
    h("div.headroom-figure", { "data-figure": key }, h("b", {}, text), h("span", {}, name), added);
  const grown = (peak, samples) => {
    const first = samples?.find((sample) => sample !== null);
    if (first === undefined || peak === null) return null;
    return h("span", {}, t("{growth} in this run", { growth: signedMib(peak - first) }));
  };
  const used = usedDevices(run);
  const vram = used.map((device) => {
    const isMain = used.length === 1 || device.device === run.device;
    const key = isMain ? "vram" : `vram ${device.device}`;
    const name = used.length === 1 ? t("Peak VRAM") : `${t("Peak VRAM")} ${device.device}`;
    const samples = run.samples?.devices?.[device.device] ?? (isMain ? run.samples?.vram_mib : null);
    return figure(key, name, peakText(device, t, mib), grown(device.peak_vram_mib, samples));
  });
  const ram = figure("ram", t("Peak RAM"), mib(run.peak_rss_mib), grown(run.peak_rss_mib, run.samples?.rss_mib));
  return h("div.headroom-figures", {}, figure("seconds", t("Time"), seconds(run.seconds)), vram, ram);
}

/**
 * The smallest GPU that a run would have fitted, as its record tells; null where it does not.
 * @param {Run} run
 * @param {Say} t
 */
function fitsLine({ fits }, t) {
  if (!fits) return null;
  const range = rangeText(fits.smallest_mib, t);
  const amount = fits.at_least ? t("≥ {amount}", { amount: range }) : range;
  const [card] = fits.cards_gib ?? [];
  const named = card ? ` · ${t("a card of {card} GiB is enough", { card })}` : "";
  const text = `${t("Smallest GPU for this run without streaming weights: {range}", { range: amount })}${named}`;
  return h("p.headroom-fits", { "data-fits": fits.kind }, text, h("small", {}, t("Measured in this run, not calculated.")));
}

/** How the entries of a run call the nodes that they are about. */
function namer(run) {
  const names = namesOf(run);
  return (entry) => names.get(entry.node_id) ?? entry.class_type ?? "HTTP";
}

/**
 * Figures, chart and out-of-memory attempts of one run.
 * @param {Run} run
 * @param {Drawing} options
 */
export function runDetails(run, { t, width, actions }) {
  const name = namer(run);
  const oom = (run.oom ?? []).map((entry) => oomLine(entry, name(entry), t));
  const gaveUp = (run.gave_up ?? []).map((entry) => gaveUpLine(entry, name(entry), t));
  return [
    runFigures(run, t),
    fitsLine(run, t),
    timeline(run, width, t, actions.pickNode),
    rescueEntry(run, t, actions.rescue),
    happened([...oom, ...gaveUp], t("Out of memory")),
    happened((run.slower ?? []).map((one) => h("li", { "data-slower": one.node_id }, t.said(one.said, one.text))), t("Slower than before")),
    happened((run.spilled ?? []).map((one) => h("li", { "data-spilled": one.node_id }, t.said(one.said, one.text))), t("VRAM that the driver moved into RAM")),
    ramOfRun(run, t),
    happened(loopTexts(run, t).map((text) => h("li", {}, text)), t("Loops")),
  ].filter((part) => part !== null);
}

/**
 * What the memory nodes did in a run.
 * @param {Run} run
 * @param {Say} t
 */
export function runActions(run, t) {
  const name = namer(run);
  const lines = (run.actions ?? []).map((entry) => h("li.headroom-action", {}, actionText(entry, name(entry), t)));
  return lines.length ? [happened(lines, t("What the memory nodes did"))] : [];
}
