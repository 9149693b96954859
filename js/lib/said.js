// Phrases of the server in the user's language: it sends each with a key and its figures.
import { mib } from "./format.js";
import { SAID_ZH } from "./said_words.js";
import { fill, LANGUAGES } from "./words.js";

const SENTENCES = new Map([[LANGUAGES.zh, SAID_ZH]]);
/** How Chinese joins what English joins by these. */
const JOINTS = { "|": " | ", and: "，并", ";": "；", ",": "、", ", or": "，或", "": "" };

/** A phrase in the language of `words`; `english` where the server or the language has no other. */
export function saidText(said, english, words) {
  const sentences = SENTENCES.get(words);
  return (sentences && told(said, sentences)) ?? english;
}

function told(said, sentences) {
  if (said?.text !== undefined) return said.text;
  if (said?.key === "joined") return joined(said.values, sentences);
  const sentence = sentences[said?.key];
  if (!sentence) return null;
  const values = Object.entries(said.values).map(([name, value]) => [name, valueText(name, value, sentences)]);
  return fill(sentence, Object.fromEntries(values));
}

function joined({ joint, parts }, sentences) {
  const said = parts.map((part) => told(part, sentences));
  return said.includes(null) ? null : said.join(JOINTS[joint] ?? joint);
}

function valueText(name, value, sentences) {
  if (name.endsWith("_mib")) return mib(value);
  return value !== null && typeof value === "object" ? told(value, sentences) : value;
}

/** What a model is for, in the language of `words`; the server calls it so in English. */
export function kindText(kind, words) {
  return saidText({ key: `kind_${kind.toLowerCase().replaceAll(" ", "_")}`, values: {} }, kind, words);
}

/** A report's headline and text in the user's language; as the server wrote them in English. */
export function reportText(report, words) {
  const sentences = SENTENCES.get(words);
  if (!sentences || !report.said) return { headline: report.headline, text: report.text };
  const headline = saidText(report.said.headline, report.headline, words);
  const steps = report.said.steps.map((step, at) => `- ${saidText(step, report.steps[at], words)}`);
  return { headline, text: [headline, ...steps, "", ...figureLines(report.figures, words)].join("\n") };
}

const FIGURES = {
  "driver free": "figureFree", "torch allocated": "figureAllocated", "torch reserved": "figureReserved",
  "dynamic-VRAM pages": "figurePages", "process RSS": "figureRss",
};

function figureLines(figures, words) {
  let last;
  return figures.flatMap(({ device, name, before_mib: before, after_mib: after }) => {
    const heading = device === last ? [] : [device ?? words.ram];
    last = device;
    return [...heading, `  ${words[FIGURES[name]] ?? name}  ${mib(before)} → ${mib(after)}`];
  });
}
