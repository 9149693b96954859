// The lower half of the panel: which run, its timeline, what happened in it, and its nodes.
import { adviceView, rangeText } from "./advice.js";
import { timeline } from "./chart.js";
import { h } from "./dom.js";
import { actionText, gaveUpLine, happened, oomLine } from "./happened.js";
import { rescueEntry } from "./rescue.js";
import { clock, mib, seconds, signedMib } from "./format.js";
import { NARROW } from "./node_table.js";
import { saidText } from "./said.js";
import { namesOf, peakText, usedDevices } from "./runs.js";
import { fill } from "./words.js";

const SIGNS = { running: "…", success: "✓", error: "✕", interrupted: "■" };

/**
 * The list to choose a run from, the newest first.
 * @param {Run[]} runs
 * @param {string} selectedId
 * @param {Drawing} options
 */
export function runPicker(runs, selectedId, { words, width, actions }) {
  const text = width < NARROW ? shortText : optionText;
  const options = runs.map((run) =>
    h("option", { value: run.prompt_id, selected: run.prompt_id === selectedId }, text(run, words)),
  );
  return h(
    "select.headroom-select",
    { "aria-label": words.runs, "data-focus": "picker", onchange: (event) => actions.choose(event.currentTarget.value) },
    options,
  );
}

function shortText(run) {
  return `${SIGNS[run.status] ?? ""} ${clock(run.started_at)} · ${seconds(run.seconds)}`;
}

function optionText(run, words) {
  const peak = run.peak_vram_mib === null ? [] : [mib(run.peak_vram_mib)];
  return [shortText(run), ...peak, words[run.status] ?? run.status].join(" · ");
}

/**
 * Figures in large type: time, peak VRAM of each device, peak RAM; below a peak how much is new.
 * @param {Run} run
 * @param {Words} words
 */
export function runFigures(run, words) {
  const figure = (key, name, text, added = null) =>
    h("div.headroom-figure", { "data-figure": key }, h("b", {}, text), h("span", {}, name), added);
  const grown = (peak, samples) => {
    const first = samples?.find((sample) => sample !== null);
    if (first === undefined || peak === null) return null;
    return h("span", {}, fill(words.inThisRun, { growth: signedMib(peak - first) }));
  };
  const used = usedDevices(run);
  const vram = used.map((device) => {
    const isMain = used.length === 1 || device.device === run.device;
    const key = isMain ? "vram" : `vram ${device.device}`;
    const name = used.length === 1 ? words.peakVram : `${words.peakVram} ${device.device}`;
    const samples = run.samples?.devices?.[device.device] ?? (isMain ? run.samples?.vram_mib : null);
    return figure(key, name, peakText(device, words, mib), grown(device.peak_vram_mib, samples));
  });
  const ram = figure("ram", words.peakRam, mib(run.peak_rss_mib), grown(run.peak_rss_mib, run.samples?.rss_mib));
  return h("div.headroom-figures", {}, figure("seconds", words.time, seconds(run.seconds)), vram, ram);
}

/**
 * The smallest GPU that a run would have fitted, as its record tells; null where it does not.
 * @param {Run} run
 * @param {Words} words
 */
export function fitsLine({ fits }, words) {
  if (!fits) return null;
  const range = rangeText(fits.smallest_mib, words);
  const amount = fits.at_least ? fill(words.atLeast, { amount: range }) : range;
  const [card] = fits.cards_gib ?? [];
  const named = card ? ` · ${fill(words.fitsCards, { card })}` : "";
  const text = `${fill(words.fits, { range: amount })}${named}`;
  return h("p.headroom-fits", { "data-fits": fits.kind }, text, h("small", {}, words.fitsKind));
}

/** How the entries of a run call the nodes that they are about. */
function namer(run) {
  const names = namesOf(run);
  return (entry) => names.get(entry.node_id) ?? entry.class_type ?? "HTTP";
}

/**
 * Figures, chart, out-of-memory attempts and advice of one run.
 * @param {Run} run
 * @param {Advice[]} advice
 * @param {Drawing} options
 */
export function runDetails(run, advice, { words, width, actions }) {
  const name = namer(run);
  const oom = (run.oom ?? []).map((entry) => oomLine(entry, name(entry), words));
  const gaveUp = (run.gave_up ?? []).map((entry) => gaveUpLine(entry, name(entry), words));
  return [
    runFigures(run, words),
    fitsLine(run, words),
    timeline(run, width, words, actions.pickNode),
    rescueEntry(run, words, actions.rescue),
    happened([...oom, ...gaveUp], words.oomTried),
    happened((run.slower ?? []).map((one) => h("li.headroom-action", {}, saidText(one.said, one.text, words))), words.slower),
    adviceView(run, advice, { words, actions }),
  ].filter((part) => part !== null);
}

/**
 * What the memory nodes did in a run.
 * @param {Run} run
 * @param {Words} words
 */
export function runActions(run, words) {
  const name = namer(run);
  const lines = (run.actions ?? []).map((entry) => h("li.headroom-action", {}, actionText(entry, name(entry), words)));
  return lines.length ? [happened(lines, words.actions)] : [];
}
