// What happened in a run: attempts after out of memory, and what the memory nodes did.
import { h } from "./dom.js";
import { isNothing, mib } from "./format.js";
import { saidText } from "./said.js";
import { fill } from "./words.js";

/** Lines as a list; null for none. */
export function happened(lines, label) {
  return lines.length ? h("ul.headroom-happened", { "aria-label": label }, lines) : null;
}

/**
 * What one of our nodes did, and what of it the driver has back.
 * @param {Words} words
 */
export function actionText(entry, node, words) {
  const returned = isNothing(entry.freed_mib) || entry.freed_mib < 0 || entry.action === "purge";
  const more = returned ? "" : ` · ${fill(words.returned, { freed: mib(entry.freed_mib) })}`;
  return `${node}: ${saidText(entry.said, entry.text, words)}${more}`;
}

/** What happened at one out-of-memory error; attempt 0: nobody recovers. */
export function oomText(entry, node, words) {
  const what = entry.attempt === 0 ? words.oomLeftOut : words.oomDetail;
  const action = saidText(entry.said, entry.action, words);
  return fill(what, { ...entry, action, node, freed: mib(entry.freed_mib) });
}

/**
 * How an attempt ended; null: it has just begun.
 * @param {{ recovered?: boolean | null }} attempt
 * @param {Words} words
 */
export function oomOutcome({ recovered }, words) {
  if (recovered === null || recovered === undefined) return words.oomAgain;
  return recovered ? words.oomRecovered : words.oomTried;
}

/** One attempt as a line. */
export function oomLine(entry, node, words) {
  const outcome = oomOutcome(entry, words);
  const text = `${outcome} · ${oomText(entry, node, words)}`;
  return h(`li.headroom-oom${entry.recovered ? ".headroom-recovered" : ""}`, { title: entry.error }, text);
}

/** What OOM Guard said when it could not help: newer hosts hide it behind words of their own. */
export function gaveUpLine(entry, node, words) {
  const text = saidText(entry.said, entry.text, words);
  return h("li.headroom-oom.headroom-gave-up", {}, fill(words.gaveUp, { node, text }));
}

/** The message for an error that no rerun can help: what it means, and what helps. */
export function errorMessage({ means }, words) {
  const told = ({ said, text }) => saidText(said, text, words);
  const what = [means.what, ...means.do].map(told);
  return { severity: "info", summary: words.errorMeans, detail: what.join("\n• ") };
}

/**
 * The message for what the server tells of an out-of-memory error: at once when the call is about
 * to be tried again (`recovered` null), and when that has helped. null: nothing to say, since
 * after a try that did not help either the next one or the error of the node follows.
 */
export function oomMessage(event, words) {
  if (event.recovered === false && event.attempt !== 0) return null;
  const node = `${event.title || event.class_type} #${event.display_node_id ?? event.node_id}`;
  const severity = event.recovered ? "success" : "warn";
  return { severity, summary: oomOutcome(event, words), detail: oomText(event, node, words) };
}
