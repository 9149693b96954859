// The timeline of a run as SVG: memory above, one band for each node below.
import { h, svg } from "./dom.js";
import { growthText, isNothing, mib, seconds, widthOf } from "./format.js";
import { growthOf, namesOf } from "./runs.js";
import {
  bands, bandsAt, duration, hueOf, memoryLimit, memoryTicks, points, sampleAt, ticks,
} from "./timeline.js";

const VRAM_HEIGHT = 96;
const RAM_HEIGHT = 48;
const LANE_HEIGHT = 20;
const GAP = 16;
const MAX_LANES = 4;
const NARROWEST_LABEL = 34;
const LETTER = 6; // pixels

/**
 * The chart of a run, `width` pixels wide, and below it the figures under the pointer.
 * @param {Run} run
 * @param {number} width
 * @param {Say} t
 */
export function timeline(run, width, t, onPick) {
  const whole = duration(run);
  const found = bands(run, width).filter((band) => band.lane < MAX_LANES);
  const plots = memoryPlots(run, t);
  const names = namesOf(run);
  const lanes = Math.max(1, ...found.map((band) => band.lane + 1));
  const top = plots.reduce((all, plot) => all + plot.height + GAP, 0);
  const height = top + lanes * LANE_HEIGHT + GAP;
  const readout = h("div.headroom-readout", {}, "\u00a0");
  const cursor = svg("line.headroom-cursor", { y1: 0, y2: height - GAP, visibility: "hidden" });
  const picture = svg(
    "svg.headroom-chart",
    { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": t("Memory over the time of the run") },
    columns(found, top),
    stacked(plots, run, whole, width),
    marks(run, whole, width, top, t),
    found.map((band) => bandBox(band, names.get(band.node.node_id), top, t, onPick)),
    timeAxis(whole, width, height),
    cursor,
  );
  followPointer(picture, { run, whole, width, found, names, plots, cursor, readout });
  return h("div", {}, picture, readout);
}

/**
 * @param {Run} run
 * @param {Say} t
 */
function memoryPlots(run, t) {
  const samples = run.samples ?? { vram_mib: [], rss_mib: [] };
  const vram = { values: samples.vram_mib, limit: memoryLimit(samples.vram_mib, run.vram_total_mib) };
  const ram = { values: samples.rss_mib, limit: memoryLimit(samples.rss_mib, null) };
  const named = run.vram_source === "torch" ? t("VRAM (this server only)") : t("VRAM");
  return [
    { ...vram, name: named, kind: "vram", height: VRAM_HEIGHT },
    { ...ram, name: t("RAM"), kind: "ram", height: vram.limit ? RAM_HEIGHT : VRAM_HEIGHT },
  ].filter((plot) => plot.limit !== null);
}

function stacked(plots, run, whole, width) {
  let y = 0;
  return plots.map((plot) => {
    y += GAP;
    const group = onePlot(plot, run, whole, width, y);
    y += plot.height;
    return group;
  });
}

function onePlot(plot, run, whole, width, y) {
  const line = points(run.samples.seconds, plot.values, whole, plot.limit, width, plot.height);
  const path = line.map(([x, up], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${up.toFixed(1)}`).join("");
  const [begins, ends] = [line[0][0], line[line.length - 1][0]].map((x) => x.toFixed(1));
  const area = `${path}L${ends} ${plot.height}L${begins} ${plot.height}Z`;
  const grid = memoryTicks(plot.limit, plot.kind === "vram" ? 4 : 2).map((at) => {
    const up = plot.height - (at / plot.limit) * plot.height;
    return [
      svg("line.headroom-grid", { x1: 0, x2: width, y1: up, y2: up }),
      svg("text.headroom-tick", { x: width - 2, y: up + 9, "text-anchor": "end" }, mib(at)),
    ];
  });
  return svg(
    `g.headroom-plot-${plot.kind}`,
    { transform: `translate(0 ${y})` },
    grid.flat(),
    svg("path.headroom-area", { d: area }),
    svg("path.headroom-stroke", { d: path }),
    svg("line.headroom-grid", { x1: 0, x2: width, y1: plot.height, y2: plot.height }),
    svg("text.headroom-name", { x: 0, y: -4 }, plot.name),
  );
}

/** Faint columns behind the memory curves show which node ran when. */
function columns(found, top) {
  return found.map((band) =>
    svg("rect.headroom-column", {
      x: band.x, y: 0, width: band.width, height: top, style: { "--hue": hueOf(band.node.class_type) },
    }),
  );
}

/** Pressed with a pointer alone: keys reach the same node by its row in the table. */
function bandBox(band, name, top, t, onPick) {
  const { node } = band;
  const y = top + band.lane * LANE_HEIGHT;
  return svg(
    `g.headroom-band${node.status === "failed" ? ".headroom-failed" : ""}`,
    { "data-node": node.node_id, style: { "--hue": hueOf(node.class_type) }, onclick: () => onPick(node) },
    svg("title", {}, bandTitle(node, name, t)),
    svg("rect", { x: band.x, y, width: Math.max(band.width - 1, 1), height: LANE_HEIGHT - 2, rx: 2 }),
    band.width < NARROWEST_LABEL ? null : label(name, band, y),
  );
}

function bandTitle(node, name, t) {
  const growth = growthOf(node);
  const memory = isNothing(growth) ? mib(node.peak_vram_mib) : growthText(growth, node.peak_vram_mib, t);
  return [name, seconds(node.seconds), memory].join(" · ");
}

function label(title, band, y) {
  const letters = [...title];
  const isLonger = (name) => widthOf(name, LETTER) > band.width - 8;
  while (letters.length > 1 && isLonger(`${letters.join("")}…`)) letters.pop();
  const text = isLonger(title) ? `${letters.join("")}…` : title;
  return svg("text", { x: band.x + 4, y: y + 13 }, text);
}

/**
 * Out-of-memory attempts and what the memory nodes did, at their moments.
 * @param {Run} run
 * @param {number} whole
 * @param {number} width
 * @param {number} top
 * @param {Say} t
 */
function marks(run, whole, width, top, t) {
  const at = (entry) => (Math.min(entry.at_seconds ?? 0, whole) / whole) * width;
  const oom = (run.oom ?? []).map((entry) =>
    mark("oom", at(entry), top, `${t.said(entry.said, entry.action)}: ${entry.error}`));
  const acts = (run.actions ?? []).map((entry) =>
    mark("action", at(entry), top, t.said(entry.said, entry.text)));
  return [...acts, ...oom];
}

/** Its arrow stands on the bands: above, it would hide the name of the first curve. */
function mark(kind, x, top, text) {
  return svg(
    `g.headroom-mark-${kind}`,
    {},
    svg("title", {}, text),
    svg("line", { x1: x, x2: x, y1: GAP, y2: top }),
    svg("path", { d: `M${x - 5} ${top - 9}L${x + 5} ${top - 9}L${x} ${top - 1}Z` }),
  );
}

function timeAxis(whole, width, height) {
  return ticks(whole, Math.max(2, width / 90)).map((at) => {
    const x = (at / whole) * width;
    const anchor = x > width - 20 ? "end" : "middle";
    return svg("text.headroom-tick", { x, y: height - 3, "text-anchor": anchor }, seconds(at));
  });
}

function followPointer(picture, { run, whole, width, found, names, plots, cursor, readout }) {
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const x = Math.min(Math.max(event.clientX - box.left, 0), width);
    const moment = (x / width) * whole;
    const at = sampleAt(run.samples?.seconds ?? [], moment);
    const figures = plots.map((plot) => `${plot.name} ${mib(plot.values[at])}`);
    const running = bandsAt(found, moment).map((band) => names.get(band.node.node_id));
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.setAttribute("visibility", "visible");
    readout.textContent = [seconds(moment), ...figures, ...running].join(" · ");
  });
  picture.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    readout.textContent = "\u00a0";
  });
}
