// What the page says, in the user's language. English is in the code; `locales/` has the other
// languages, by the English template.
import { mib, tenths, UNKNOWN } from "./format.js";

/** Marks a template that `t` is given elsewhere, so that the test of translations finds it. */
export const phrase = (template) => template;

/**
 * Texts in one language: `t(template, values)` for the page's own, `t.said(data, english)` for
 * phrases of the server ({template, values}; a list of values is joined by the template), with amounts
 * as everywhere on the page; `english` is for what has no template.
 * @param {Record<string, string> | null} translations by English template; null: English
 * @returns {Say}
 */
export function speaker(translations) {
  const t = (template, values = {}) => (translations?.[template] ?? template)
    .replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));

  function told(data) {
    if (data === null || typeof data !== "object") return String(data);
    const { template, values } = data;
    if (Array.isArray(values)) return values.map(told).join(t(template));
    const texts = Object.entries(values).map(([name, value]) => [name, name.endsWith("_mib") ? mib(value) : told(value)]);
    return t(template, Object.fromEntries(texts));
  }

  const said = (data, english) => (data ? told(data) : english);
  return Object.assign(t, { said });
}

/** A locale's language: that of "zh-TW" is "zh". */
const languageOf = (locale) => String(locale ?? "en").split("-")[0];

/** The words of a locale's language among `i18n`, what packs say by language; null for English. */
export const wordsOf = (i18n, locale) => (languageOf(locale) === "en" ? null : (i18n[languageOf(locale)] ?? null));

/** What tells the speaker for a locale such as "zh" or "zh-TW"; `i18n` is what packs say, by language. */
export function speakers(i18n) {
  const english = speaker(null);
  const known = Object.entries(i18n).map(([language, texts]) => [language, texts?.Headroom ? speaker(texts.Headroom) : english]);
  const spoken = Object.fromEntries(known);
  return (locale) => spoken[languageOf(locale)] ?? english;
}

/**
 * A report's headline and text in the user's language, with its figures to the tenth; in English they
 * are those of `Report.text` in headroom/measure/report.py.
 * @param {Report} report
 * @param {Say} t
 */
export function reportText(report, t) {
  const steps = report.said.steps.map((step, at) => `- ${t.said(step, report.steps[at])}`);
  const headline = t.said(report.said.headline, report.headline);
  return { headline, text: [headline, ...steps, "", ...figureLines(report.figures, t)].join("\n") };
}

/** @param {Say} t */
function figureLines(figures, t) {
  let last;
  return figures.flatMap(({ device, name, before_mib: before, after_mib: after }) => {
    const heading = device === last ? [] : [device ?? t("RAM")];
    last = device;
    const amounts = before === null || after === null ? UNKNOWN : `${tenths(before)} → ${tenths(after)} MiB`;
    return [...heading, `  ${t(name)}  ${amounts}`];
  });
}
