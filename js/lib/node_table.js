// The table of a run's nodes.
import { compactMib, growthText, isNothing, mib, seconds, signedMib } from "./format.js";
import { h } from "./dom.js";
import { COLUMNS, isExact, LEVELS, namesOf, peakText, sortNodes, usedColumns, usedDevices } from "./runs.js";
import { phrase } from "./say.js";
import { hueOf } from "./timeline.js";

const MOST_ROWS = 300;
/** Below these widths names need the room of the least asked-for columns. */
export const NARROW = 300;
const VERY_NARROW = 220;
/** What each column is called, and what it shows. */
const HEADINGS = {
  title: [phrase("Node"), phrase("Click a row to find the node on the canvas")],
  peak: [phrase("Peak"), phrase("Highest use of the GPU while the node ran")],
  vram: [phrase("Δ VRAM"), phrase("By how much the node made use of the GPU grow, and what is in use after it in all")],
  ram: [phrase("Δ RAM"), phrase("By how much the node made this server's RAM grow, and what it holds after it in all")],
  seconds: [phrase("Time"), phrase("Time of the node itself")],
};

/** The columns that there is room for. */
function shownColumns(run, width) {
  const used = usedColumns(run);
  const crowded = used.includes("peak") ? [width < NARROW && "ram", width < VERY_NARROW && "vram"] : [];
  return used.filter((key) => !crowded.includes(key));
}

/**
 * The nodes of a run, sorted by `sort`; each heading and each row is one stop for keys.
 * @param {Run} run
 * @param {Sorting} sort
 * @param {Drawing} options
 */
export function nodeTable(run, sort, { t, width, actions }) {
  const names = namesOf(run);
  const keys = shownColumns(run, width);
  const sorted = sortNodes(run.nodes, keys.includes(sort.key) ? sort.key : "seconds", sort.descending);
  const highest = Math.max(1, ...run.nodes.map((node) => node.peak_vram_mib ?? 0));
  const left = Math.max(0, run.nodes.length - MOST_ROWS) + (run.nodes_left_out ?? 0);
  return h(
    "div.headroom-scroll",
    { "data-run": run.prompt_id, "data-status": run.status },
    h(
      "table.headroom-table",
      {},
      h("thead", {}, h("tr", {}, keys.map((key) => heading(key, t, sort, actions.sortBy)))),
      h("tbody", {}, sorted.slice(0, MOST_ROWS).map((node) => row(node, { keys, highest, device: run.device, names, t, onPick: actions.pickNode }))),
    ),
    left > 0 ? h("p.headroom-quiet", {}, t("Nodes that are not listed: {count}.", { count: left })) : null,
  );
}

/**
 * @param {string} key
 * @param {Say} t
 * @param {Sorting} sort
 */
function heading(key, t, sort, onSort) {
  const chosen = sort.key === key;
  const arrow = chosen ? (sort.descending ? " ▾" : " ▴") : "";
  const order = chosen ? (sort.descending ? "descending" : "ascending") : "none";
  return h(
    "th",
    { "data-column": key, "aria-sort": order, title: t(HEADINGS[key][1]) },
    h("button.headroom-sort", { type: "button", "data-focus": `column ${key}`, onclick: () => onSort(key) }, t(HEADINGS[key][0]) + arrow),
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
  return [titleCell(node, options, options.keys.length - 1), h("td", {}, options.t("cached"))];
}

function cell(node, key, options) {
  const value = COLUMNS[key](node);
  if (key === "title") return titleCell(node, options);
  if (key === "peak") return peakCell(node, options);
  if (key === "seconds") return h("td", {}, seconds(value));
  if (value === null) return h("td");
  return growthCell(value, LEVELS[key](node), options.t);
}

/** By how much something grew, and below it what it is now in all. */
function growthCell(growth, level, t) {
  const text = signedMib(growth).replace(/ ([MG])iB$/, "$1").replace(/^0M$/, "0");
  const all = isNothing(growth) ? null : h("small", {}, t("{level} in all", { level: compactMib(level) }));
  return h("td", { title: growthText(growth, level, t) }, text, all);
}

/** @param {number | null} colspan */
function titleCell(node, { names, t }, colspan = null) {
  const name = names.get(node.node_id);
  const end = { failed: t("failed here"), stopped: t("interrupted here") }[node.status];
  return h(
    "td",
    { title: `${COLUMNS.title(node)} · ${node.class_type} · #${node.node_id}${end ? ` (${end})` : ""}`, colspan },
    h("i.headroom-dot", { style: { "--hue": hueOf(node.class_type) } }),
    h("button.headroom-link", { type: "button", "data-focus": `node ${node.node_id}`, "aria-label": t("Find {node} on the canvas", { node: name }) }, name),
  );
}

/** The peak on the run's main device, and small below it those on the others. */
function peakCell(node, { highest, device, t }) {
  const value = node.peak_vram_mib ?? null;
  if (value === null) return h("td", {}, "");
  const share = `${((value / highest) * 100).toFixed(1)}%`;
  const others = usedDevices(node).filter((other) => other.device && other.device !== device);
  const lines = others.map((other) => h("small", {}, `${other.device} ${peakText(other, t, compactMib)}`));
  const title = isExact(node) ? mib(value) : `${peakText(node, t, mib)} (${t("At least: memory may have been higher between two readings")})`;
  return h("td.headroom-peak", { title, style: { "--share": share } }, peakText(node, t, compactMib), lines);
}
