// What the server says in sentences, in the words of the page where it also sends key and values.
import { mib } from "./format.js";
import { fill } from "./words.js";

/** `{ key, values }` in the page's words; the server's own sentence where the page has none. */
export function say(said, sentence, words) {
  const known = said && words.said[said.key];
  if (!known) return sentence;
  const values = Object.entries(said.values ?? {}).map(([name, value]) => [
    name, name.endsWith("_mib") ? mib(value) : value,
  ]);
  return fill(known, Object.fromEntries(values));
}

/** What one of our nodes did. */
export const sayText = (entry, words) => say(entry.said, entry.text, words);

/** What was done after an out-of-memory error. */
export const sayAction = (entry, words) => say(entry.said, entry.action, words);

/** One line for a message. */
export const headlineOf = (report, words) => say(report.said?.headline, report.headline, words);

/** The whole report, step by step, with what was measured before and after. */
export function reportText(report, words) {
  if (!report.said || !words.said[report.said.headline?.key]) return report.text;
  const steps = report.steps.map((step, at) => `- ${say(report.said.steps[at], step, words)}`);
  return [headlineOf(report, words), ...steps, "", ...report.said.figures.map((each) => figure(each, words))].join("\n");
}

function figure({ device, name, before_mib: before, after_mib: after }, words) {
  const place = device ? `${device} · ` : "";
  return `${place}${words.figures[name] ?? name}: ${mib(before)} → ${mib(after)}`;
}
