// The lower half of the panel: which run, its timeline, what happened in it, and its nodes.
import { adviceView, rangeText } from "./advice.js";
import { timeline } from "./chart.js";
import { h, onPress } from "./dom.js";
import { actionText, gaveUpLine, happened, oomLine } from "./happened.js";
import { rescueEntry } from "./rescue.js";
import { clock, compactMib, growthText, isNothing, mib, seconds, signedMib } from "./format.js";
import { COLUMNS, isExact, LEVELS, namesOf, sortNodes, usedColumns, usedDevices } from "./runs.js";
import { hueOf } from "./timeline.js";
import { fill } from "./words.js";

const MOST_ROWS = 300;
/** Below these widths names need the room of the least asked-for columns. */
const NARROW = 300;
const VERY_NARROW = 220;
const SIGNS = { running: "…", success: "✓", error: "✕", interrupted: "■" };
const HEADINGS = { title: "title", peak: "peak", vram: "vramDelta", ram: "ramDelta", seconds: "time" };

/** The list to choose a run from, the newest first. */
export function runPicker(runs, selectedId, { words, width, onChoose }) {
  const text = width < NARROW ? shortText : optionText;
  const options = runs.map((run) =>
    h("option", { value: run.prompt_id, selected: run.prompt_id === selectedId }, text(run, words)),
  );
  return h(
    "select.headroom-select",
    { "aria-label": words.runs, onchange: (event) => onChoose(event.target.value) },
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

/** Figures in large type: time, peak VRAM of each device, peak RAM; below a peak how much is new. */
export function runFigures(run, words) {
  const figure = (key, name, text, grown = null) =>
    h("div.headroom-figure", { "data-figure": key }, h("b", {}, text), h("span", {}, name), grown);
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

/** A peak, marked where it is only the least that it was. */
function peakText(part, words, write) {
  const amount = write(part.peak_vram_mib);
  return isExact(part) ? amount : fill(words.atLeast, { amount });
}

/** The smallest GPU that a run would have fitted, as its record tells; null where it does not. */
export function fitsLine({ fits }, words) {
  if (!fits) return null;
  const range = rangeText(fits.smallest_mib, words);
  const amount = fits.at_least ? fill(words.atLeast, { amount: range }) : range;
  const [card] = fits.cards_gib ?? [];
  const named = card ? ` · ${fill(words.fitsCards, { card })}` : "";
  const text = `${fill(words.fits, { range: amount })}${named}`;
  return h("p.headroom-fits", { "data-fits": fits.kind }, text, h("small", {}, words.fitsKind));
}

/** Chart, out-of-memory attempts, advice, table of one run, and what the memory nodes did in it. */
export function runDetails(run, { words, width, sort, advice = [], onSort, onPick, onApply, onPlan }) {
  const names = namesOf(run);
  const name = (entry) => names.get(entry.node_id) ?? entry.class_type ?? "HTTP";
  const oom = (run.oom ?? []).map((entry) => oomLine(entry, name(entry), words));
  const gaveUp = (run.gave_up ?? []).map((entry) => gaveUpLine(entry, name(entry), words));
  const actions = (run.actions ?? []).map((entry) =>
    h("li.headroom-action", {}, actionText(entry, name(entry), words)),
  );
  return [
    runFigures(run, words),
    fitsLine(run, words),
    timeline(run, width, words, onPick),
    rescueEntry(run, words),
    happened([...oom, ...gaveUp], words.oomTried),
    adviceView(run, advice, { words, onApply, onPick, onPlan }),
    nodeTable(run, { names, words, width, sort, onSort, onPick }),
    happened(actions, words.actions),
  ].filter((part) => part !== null);
}

/** The columns that there is room for. */
export function shownColumns(run, width) {
  const used = usedColumns(run);
  const crowded = used.includes("peak") ? [width < NARROW && "ram", width < VERY_NARROW && "vram"] : [];
  return used.filter((key) => !crowded.includes(key));
}

function nodeTable(run, { names, words, width, sort, onSort, onPick }) {
  const keys = shownColumns(run, width);
  const sorted = sortNodes(run.nodes, keys.includes(sort.key) ? sort.key : "seconds", sort.descending);
  const highest = Math.max(1, ...run.nodes.map((node) => node.peak_vram_mib ?? 0));
  const left = run.nodes.length - MOST_ROWS + (run.nodes_left_out ?? 0);
  return h(
    "div.headroom-scroll",
    { "data-run": run.prompt_id, "data-status": run.status },
    h(
      "table.headroom-table",
      {},
      h("thead", {}, h("tr", {}, keys.map((key) => heading(key, words, sort, onSort)))),
      h("tbody", {}, sorted.slice(0, MOST_ROWS).map((node) => row(node, { keys, highest, device: run.device, names, words, onPick }))),
    ),
    left > 0 ? h("p.headroom-quiet", {}, fill(words.more, { count: left })) : null,
  );
}

function heading(key, words, sort, onSort) {
  const chosen = sort.key === key;
  const arrow = chosen ? (sort.descending ? " ▾" : " ▴") : "";
  const order = chosen ? (sort.descending ? "descending" : "ascending") : "none";
  return h(
    "th",
    { "data-column": key, "aria-sort": order, title: words[`${HEADINGS[key].replace("Delta", "")}Tip`], ...onPress(() => onSort(key)) },
    words[HEADINGS[key]] + arrow,
  );
}

/** A row is pressed anywhere with a pointer, and by the button in it with keys. */
function row(node, options) {
  const kind = { failed: ".headroom-failed", stopped: ".headroom-stopped" }[node.status] ?? "";
  return h(
    `tr${kind}${node.cached ? ".headroom-cached" : ""}`,
    { "data-node": node.node_id, onclick: () => options.onPick(node) },
    node.cached ? cachedCells(node, options) : options.keys.map((key) => cell(node, key, options)),
  );
}

/** A cached node has no figures: its name takes their place. */
function cachedCells(node, options) {
  return [titleCell(node, options, options.keys.length - 1), h("td", {}, options.words.cached)];
}

function cell(node, key, options) {
  const value = COLUMNS[key](node);
  if (key === "title") return titleCell(node, options);
  if (key === "peak") return peakCell(node, options);
  if (key === "seconds") return h("td", {}, seconds(value));
  if (value === null) return h("td");
  return growthCell(value, LEVELS[key](node), options.words);
}

/** By how much something grew, and below it what it is now in all. */
function growthCell(growth, level, words) {
  const text = signedMib(growth).replace(/ ([MG])iB$/, "$1").replace(/^0M$/, "0");
  const all = isNothing(growth) ? null : h("small", {}, fill(words.inAll, { level: compactMib(level) }));
  return h("td", { title: growthText(growth, level, words) }, text, all);
}

function titleCell(node, { names, words }, colspan = null) {
  const name = names.get(node.node_id);
  const end = { failed: words.failedHere, stopped: words.stoppedHere }[node.status];
  return h(
    "td",
    { title: `${COLUMNS.title(node)} · ${node.class_type} · #${node.node_id}${end ? ` (${end})` : ""}`, colspan },
    h("i.headroom-dot", { style: { "--hue": hueOf(node.class_type) } }),
    h("button.headroom-link", { type: "button", "aria-label": fill(words.findNode, { node: name }) }, name),
  );
}

/** The peak on the run's main device, and small below it those on the others. */
function peakCell(node, { highest, device, words }) {
  const value = node.peak_vram_mib ?? null;
  if (value === null) return h("td", {}, "");
  const share = `${((value / highest) * 100).toFixed(1)}%`;
  const others = usedDevices(node).filter((other) => other.device && other.device !== device);
  const lines = others.map((other) => h("small", {}, `${other.device} ${peakText(other, words, compactMib)}`));
  const title = isExact(node) ? mib(value) : `${peakText(node, words, mib)} (${words.atLeastTip})`;
  return h("td.headroom-peak", { title, style: { "--share": share } }, peakText(node, words, compactMib), lines);
}
