// What happened in a run: attempts after out of memory, and what the memory nodes did.
import { h } from "./dom.js";
import { isNothing, mib } from "./format.js";

const MOST_LEFT_OUT = 5; // nodes that are named

/** Lines as a list; null for none. */
export function happened(lines, label) {
  return lines.length ? h("ul.headroom-happened", { "aria-label": label }, lines) : null;
}

/**
 * What grew with each turn of a loop, and what ran too often to be recorded.
 * @param {Run} run
 * @param {Say} t
 */
export function loopTexts(run, t) {
  const grows = (run.grows ?? []).map(({ what, mib_a_turn: grown, turns, title }) => {
    const values = { grown: mib(grown), turns, title };
    return what === "RAM"
      ? t("RAM grows by {grown} with each turn of a loop ({turns} turns), most in {title}", values)
      : t("VRAM grows by {grown} with each turn of a loop ({turns} turns), most in {title}", values);
  });
  const left = [...(run.left_out ?? [])].sort((one, other) => other.count - one.count).slice(0, MOST_LEFT_OUT);
  return [...grows, ...left.map(({ title, count }) => t("{title}: runs that are not in the record: {count}", { title, count }))];
}

/**
 * What one of our nodes did, and what of it the driver has back.
 * @param {Say} t
 */
export function actionText(entry, node, t) {
  const returned = isNothing(entry.freed_mib) || entry.freed_mib < 0 || entry.action === "purge";
  const more = returned ? "" : ` · ${t("{freed} went back to the driver", { freed: mib(entry.freed_mib) })}`;
  return `${node}: ${t.said(entry.said, entry.text)}${more}`;
}

/** What happened at one out-of-memory error; attempt 0: nobody recovers. */
export function oomText(entry, node, t) {
  const action = t.said(entry.said, entry.action);
  if (entry.attempt === 0) return `${node}: ${action}`;
  return t("{node}: {action} (attempt {attempt}, {freed} freed)", { ...entry, action, node, freed: mib(entry.freed_mib) });
}

/**
 * How an attempt ended; null: it has just begun.
 * @param {{ recovered?: boolean | null }} attempt
 * @param {Say} t
 */
function oomOutcome({ recovered }, t) {
  if (recovered === null || recovered === undefined) return t("Out of memory, trying again");
  return recovered ? t("Recovered from out of memory") : t("Out of memory");
}

/** One attempt as a line. */
export function oomLine(entry, node, t) {
  const outcome = oomOutcome(entry, t);
  const text = `${outcome} · ${oomText(entry, node, t)}`;
  return h(`li.headroom-oom${entry.recovered ? ".headroom-recovered" : ""}`, { title: entry.error }, text);
}

/** What OOM Guard said when it could not help: newer hosts hide it behind words of their own. */
export function gaveUpLine(entry, node, t) {
  const text = t.said(entry.said, entry.text);
  return h("li.headroom-oom.headroom-gave-up", {}, t("{node} gave up: {text}", { node, text }));
}

/** The message for an error that no rerun can help: what it means, and what helps. */
export function errorMessage({ means }, t) {
  const what = [means.what, ...means.do].map(({ said, text }) => t.said(said, text));
  return { severity: "info", summary: t("What this error means, and what helps"), detail: what.join("\n• ") };
}

/**
 * The message for what the server tells of an out-of-memory error: at once when the call is about
 * to be tried again (`recovered` null), and when that has helped. null: nothing to say, since
 * after a try that did not help either the next one or the error of the node follows.
 */
export function oomMessage(event, t) {
  if (event.recovered === false && event.attempt !== 0) return null;
  const node = `${event.title || event.class_type} #${event.display_node_id ?? event.node_id}`;
  const severity = event.recovered ? "success" : "warn";
  return { severity, summary: oomOutcome(event, t), detail: oomText(event, node, t) };
}
