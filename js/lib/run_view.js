// The lower half of the panel: which run, its timeline, what happened in it, and its nodes.
import { timeline } from "./chart.js";
import { h, onPress } from "./dom.js";
import { clock, compactMib, mib, seconds, signedMib } from "./format.js";
import { rescueEntry } from "./rescue.js";
import { COLUMNS, sortNodes, usedColumns } from "./runs.js";
import { hueOf } from "./timeline.js";
import { fill } from "./words.js";

const MOST_ROWS = 300;
/** Below this width names need the room of the least asked-for column. */
const NARROW = 300;
const SIGNS = { running: "…", success: "✓", error: "✕", interrupted: "■" };
const HEADINGS = { title: "title", peak: "peak", vram: "vramDelta", ram: "ramDelta", seconds: "time" };

/** The list to choose a run from, the newest first. */
export function runPicker(runs, selectedId, words, onChoose) {
  const options = runs.map((run) =>
    h("option", { value: run.prompt_id, selected: run.prompt_id === selectedId }, optionText(run, words)),
  );
  return h(
    "select.headroom-select",
    { "aria-label": words.runs, onchange: (event) => onChoose(event.target.value) },
    options,
  );
}

function optionText(run, words) {
  const figures = [clock(run.started_at), seconds(run.seconds)];
  if (run.peak_vram_mib !== null) figures.push(mib(run.peak_vram_mib));
  return `${SIGNS[run.status] ?? ""} ${figures.join(" · ")} · ${words[run.status] ?? run.status}`;
}

/** Three figures in large type: time, peak VRAM, peak RAM. */
export function runFigures(run, words) {
  const figure = (key, name, text) =>
    h("div.headroom-figure", { "data-figure": key }, h("b", {}, text), h("span", {}, name));
  return h(
    "div.headroom-figures",
    {},
    figure("seconds", words.time, seconds(run.seconds)),
    run.peak_vram_mib === null ? null : figure("vram", words.peakVram, mib(run.peak_vram_mib)),
    figure("ram", words.peakRam, mib(run.peak_rss_mib)),
  );
}

/** Chart, out-of-memory attempts, table of one run, and what the memory nodes did in it. */
export function runDetails(run, { words, width, sort, onSort, onPick }) {
  const titles = new Map(run.nodes.map((node) => [node.node_id, node.title || node.class_type]));
  const name = (entry) => titles.get(entry.node_id) ?? entry.class_type ?? "HTTP";
  const oom = (run.oom ?? []).map((entry) => oomLine(entry, name(entry), words));
  const actions = (run.actions ?? []).map((entry) =>
    h("li.headroom-action", {}, `${name(entry)}: ${entry.text}`),
  );
  return [
    runFigures(run, words),
    timeline(run, width, words, onPick),
    rescueEntry(run, words),
    happened(oom, words.oomTried),
    nodeTable(run, { words, width, sort, onSort, onPick }),
    happened(actions, words.actions),
  ].filter((part) => part !== null);
}

function happened(lines, label) {
  return lines.length ? h("ul.headroom-happened", { "aria-label": label }, lines) : null;
}

/** What happened at one out-of-memory error; attempt 0: nobody recovers. */
export function oomText(entry, node, words) {
  const what = entry.attempt === 0 ? words.oomLeftOut : words.oomDetail;
  return fill(what, { ...entry, node, freed: mib(entry.freed_mib) });
}

function oomLine(entry, node, words) {
  const outcome = entry.recovered ? words.oomRecovered : words.oomTried;
  const text = `${outcome} · ${oomText(entry, node, words)}`;
  return h(`li.headroom-oom${entry.recovered ? ".headroom-recovered" : ""}`, { title: entry.error }, text);
}

function nodeTable(run, { words, width, sort, onSort, onPick }) {
  const used = usedColumns(run);
  const crowded = width < NARROW && used.includes("peak");
  const keys = used.filter((key) => !(crowded && key === "ram"));
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
      h("tbody", {}, sorted.slice(0, MOST_ROWS).map((node) => row(node, keys, highest, words, onPick))),
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

function row(node, keys, highest, words, onPick) {
  return h(
    `tr${node.status === "failed" ? ".headroom-failed" : ""}${node.cached ? ".headroom-cached" : ""}`,
    { "data-node": node.node_id, ...onPress(() => onPick(node)) },
    node.cached ? cachedCells(node, keys, words) : keys.map((key) => cell(node, key, highest, words)),
  );
}

/** A cached node has no figures: its name takes their place. */
function cachedCells(node, keys, words) {
  return [titleCell(node, COLUMNS.title(node), words, keys.length - 1), h("td", {}, words.cached)];
}

function cell(node, key, highest, words) {
  const value = COLUMNS[key](node);
  if (key === "title") return titleCell(node, value, words);
  if (key === "peak") return peakCell(value, highest);
  if (key === "seconds") return h("td", {}, seconds(value));
  if (value === null) return h("td");
  return h("td", { title: signedMib(value) }, signedMib(value).replace(/ ([MG])iB$/, "$1").replace(/^0M$/, "0"));
}

function titleCell(node, title, words, colspan = null) {
  const failed = node.status === "failed" ? ` (${words.failedHere})` : "";
  return h(
    "td",
    { title: `${title} · ${node.class_type} · #${node.node_id}${failed}`, colspan },
    h("i.headroom-dot", { style: { "--hue": hueOf(node.class_type) } }),
    h("span", {}, title),
  );
}

function peakCell(value, highest) {
  if (value === null) return h("td", {}, "");
  const share = `${((value / highest) * 100).toFixed(1)}%`;
  return h("td.headroom-peak", { title: mib(value), style: { "--share": share } }, compactMib(value));
}
