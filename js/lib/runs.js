// The record of one run, as GET /headroom/runs gives it, turned into what badges and tables show.

/** Parts of an execution id: "5:12" is node 12 in the subgraph of node 5. */
export function pathOf(executionId) {
  return String(executionId).split(":");
}

/**
 * One entry for each node on the canvas, keyed by its execution id. Nodes that a node expanded
 * to count for it: their seconds add up, the highest peak stays.
 */
export function byDisplayNode(run) {
  const found = new Map();
  for (const node of run.nodes) {
    const id = String(node.display_node_id ?? node.node_id);
    merge(found, id, node, id === String(node.node_id) ? node.class_type : null);
  }
  return found;
}

/** As byDisplayNode, and every subgraph node also sums up what is inside it. */
export function byCanvasNode(run) {
  const found = byDisplayNode(run);
  for (const [id, entry] of [...found]) {
    const path = pathOf(id);
    for (let depth = path.length - 1; depth > 0; depth -= 1) {
      merge(found, path.slice(0, depth).join(":"), entry, null);
    }
  }
  return found;
}

/** By how much memory rose while a node ran: its peak minus what was in use before it. */
export function growthOf(node) {
  return node.growth_mib ?? difference(node.peak_vram_mib, node.vram_before_mib);
}

function merge(found, id, node, classType) {
  const known = found.get(id);
  if (!known) {
    found.set(id, {
      seconds: node.seconds ?? 0,
      peak_vram_mib: node.peak_vram_mib ?? null,
      growth_mib: growthOf(node),
      cached: Boolean(node.cached),
      class_type: classType,
    });
    return;
  }
  known.seconds += node.seconds ?? 0;
  known.peak_vram_mib = highest(known.peak_vram_mib, node.peak_vram_mib ?? null);
  known.growth_mib = highest(known.growth_mib, growthOf(node));
  known.cached = known.cached && Boolean(node.cached);
  known.class_type = known.class_type ?? classType;
}

function highest(one, other) {
  if (one === null || other === null) return one ?? other;
  return Math.max(one, other);
}

function difference(after, before) {
  if (after == null || before == null) return null;
  return after - before;
}

/** What a column of the table shows and sorts by. */
export const COLUMNS = {
  title: (node) => node.title || node.class_type,
  peak: (node) => node.peak_vram_mib ?? null,
  vram: (node) => difference(node.vram_after_mib, node.vram_before_mib),
  ram: (node) => difference(node.rss_after_mib, node.rss_before_mib),
  seconds: (node) => (node.cached ? null : (node.seconds ?? null)),
};

/**
 * The run; guards that the server inserted have names in the user's language, and stand for the node that they guard.
 * @param {Run} run
 * @param {Say} t
 * @returns {Run}
 */
export function withGuardsNamed(run, t) {
  const named = (node) => {
    const [, from, slot] = /^headroom-guard-(.+)-(\d+)_*$/.exec(node.node_id) ?? [];
    return from ? { ...node, display_node_id: from, title: `${t("OOM Guard")} #${from}.${Number(slot) + 1}` } : node;
  };
  return { ...run, nodes: run.nodes.map(named) };
}

/**
 * The names of a run's nodes by id: equal titles are told apart by their number.
 * @param {Run} run
 */
export function namesOf(run) {
  const titles = run.nodes.map(COLUMNS.title);
  const [seen, shared] = [new Set(), new Set()];
  for (const title of titles) (seen.has(title) ? shared : seen).add(title);
  return new Map(run.nodes.map((node, at) => [
    node.node_id, shared.has(titles[at]) ? `${titles[at]} #${node.node_id}` : titles[at],
  ]));
}

/** What is in use after a node, for the columns that show a difference. */
export const LEVELS = {
  vram: (node) => node.vram_after_mib ?? null,
  ram: (node) => node.rss_after_mib ?? null,
};

/** Columns with at least one figure: a server without a GPU has no VRAM to show. */
export function usedColumns(run) {
  return Object.keys(COLUMNS).filter(
    (key) => ["title", "seconds"].includes(key) || run.nodes.some((n) => COLUMNS[key](n) !== null),
  );
}

/** Nodes sorted by a column; unknown figures stay last in both directions, ties keep run order. */
export function sortNodes(nodes, column, descending) {
  const value = COLUMNS[column];
  const sign = descending ? -1 : 1;
  return [...nodes].sort((one, other) => {
    const a = value(one);
    const b = value(other);
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    if (typeof a === "string") return sign * a.localeCompare(b, undefined, { numeric: true });
    return sign * (a - b);
  });
}

/** Whether a peak is known to within a hundredth; else it may have been higher. */
export function isExact({ peak_vram_mib: peak, peak_vram_at_most_mib: most }) {
  return most === undefined || (most !== null && most <= 1.01 * peak);
}

/** A peak, marked where it is only the least that it was; `write` makes a text of MiB. */
export function peakText(part, t, write) {
  const amount = write(part.peak_vram_mib);
  return isExact(part) ? amount : t("≥ {amount}", { amount });
}

/** The devices of a run, or of a node in it, that have a peak: the record's own figures are one's. */
export function usedDevices(part) {
  const used = (part.devices ?? []).filter((device) => device.peak_vram_mib !== null);
  return used.length || part.peak_vram_mib == null ? used : [part];
}

/** The column to sort by first: the peak where there is one, else the time. */
export function firstColumn(run) {
  return usedColumns(run).includes("peak") ? "peak" : "seconds";
}

/**
 * True when the run may still change.
 * @param {Run} run
 */
export function isRunning(run) {
  return run.status === "running";
}
