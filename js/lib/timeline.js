// Geometry of the timeline: pure numbers, no DOM.

const STEPS = [1, 2, 5];
const LEAST_RANGE_MIB = 64;

/** Round distances for about `wanted` grid lines up to `limit`. */
export function ticks(limit, wanted) {
  if (!(limit > 0)) return [];
  const raw = limit / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = (STEPS.find((factor) => factor * power >= raw * 0.999) ?? 10) * power;
  const found = [];
  for (let i = 1; i * step <= limit * 1.0001; i += 1) found.push(i * step);
  return found;
}

/** Round memory distances: powers of two in MiB, so that labels read 512 MiB, 1 GiB, 2 GiB. */
export function memoryTicks(limitMib, wanted) {
  if (!(limitMib > 0)) return [];
  const step = 2 ** Math.ceil(Math.log2(limitMib / Math.max(1, wanted)));
  const found = [];
  for (let at = step; at <= limitMib * 1.0001; at += step) found.push(at);
  return found;
}

/**
 * Seconds that the horizontal axis covers; a running node's band reaches the newest sample.
 * @param {Run} run
 */
export function duration(run) {
  const samples = run.samples?.seconds ?? [];
  const ends = run.nodes.flatMap((node) => node.spans.map((span) => span[1] ?? span[0]));
  return Math.max(run.seconds ?? 0, samples.at(-1) ?? 0, ...ends, 0.001);
}

/**
 * One band for each span of each node: {node, index, lane, x, width} with x and width in pixels.
 * Spans that overlap (async nodes) go to different lanes.
 * @param {Run} run
 */
export function bands(run, pixels) {
  const whole = duration(run);
  const spans = run.nodes.flatMap((node, index) =>
    node.spans.map(([start, end]) => ({ node, index, start, end: end ?? whole })));
  spans.sort((one, other) => one.start - other.start);
  /** @type {number[]} */
  const laneEnds = [];
  return spans.map((span) => {
    const free = laneEnds.findIndex((end) => end <= span.start + 1e-9);
    const lane = free < 0 ? laneEnds.length : free;
    laneEnds[lane] = span.end;
    const width = Math.max(((span.end - span.start) / whole) * pixels, 1);
    return { ...span, lane, x: (span.start / whole) * pixels, width };
  });
}

/** Points [x, y] of a line; null samples are left out. */
export function points(times, values, whole, limit, width, height) {
  const found = [];
  for (const [i, value] of values.entries()) {
    if (value === null || value === undefined) continue;
    found.push([(times[i] / whole) * width, height - (value / limit) * height]);
  }
  return found;
}

/** The lowest-to-highest range that a memory chart shows: from 0 to a little above its highest. */
export function memoryLimit(values, total) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (!known.length) return null;
  const highest = Math.max(...known);
  if (total && highest > total * 0.5) return total;
  return Math.max(highest * 1.15, LEAST_RANGE_MIB);
}

/** Index of the sample at or just before a moment; -1 when there is none. */
export function sampleAt(times, moment) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= moment) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The bands that a moment lies in. */
export function bandsAt(found, moment) {
  return found.filter((band) => band.start <= moment && moment <= band.end);
}

/** A hue for each class of node, the same in every run and in both themes. */
export function hueOf(classType) {
  let hash = 7;
  for (const letter of String(classType)) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) >>> 0;
  return Math.round((hash * 137.508) % 360);
}
