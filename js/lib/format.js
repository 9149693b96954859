// Amounts as people read them. All memory comes in MiB; null means that nobody can tell.

export const UNKNOWN = "–";

/** "512 MiB", "1.2 GiB": three digits at most, so that columns stay narrow. The server's advice writes the same. */
export function mib(amount) {
  if (amount === null || amount === undefined) return UNKNOWN;
  const size = Math.abs(amount);
  if (size < 9.95) return `${rounded(amount, 1)} MiB`;
  if (size < 999.5) return `${rounded(amount, 0)} MiB`;
  const gib = amount / 1024;
  return `${rounded(gib, Math.abs(gib) < 99.95 ? 1 : 0)} GiB`;
}

/** The same in a narrow column: "512M", "1.2G". */
export function compactMib(amount) {
  return mib(amount).replace(/ ([MG])iB$/, "$1");
}

/** A difference with its sign: "+1.2 GiB", "−300 MiB", "0 MiB". */
export function signedMib(amount) {
  if (amount === null || amount === undefined) return UNKNOWN;
  if (Math.abs(amount) < 0.05) return "0 MiB";
  return (amount > 0 ? "+" : "−") + mib(Math.abs(amount));
}

/** "4 ms", "3.4 s", "2:05 min". */
export function seconds(amount) {
  if (amount === null || amount === undefined) return UNKNOWN;
  if (amount < 0.0995) return `${Math.round(amount * 1000)} ms`;
  if (amount < 9.95) return `${amount.toFixed(1)} s`;
  if (amount < 59.5) return `${Math.round(amount)} s`;
  const whole = Math.round(amount);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")} min`;
}

/** Growth beside level: "+48, 92 MiB in all", "+300 MiB, 1.2 GiB in all". */
export function growthText(growth, level, t) {
  const [plus, all] = [signedMib(growth), mib(level)];
  const [unit, other] = [plus, all].map((text) => text.slice(text.lastIndexOf(" ")));
  return t("{growth}, {level} in all", { growth: unit === other ? plus.slice(0, -unit.length) : plus, level: all });
}

/** An amount in MiB to the tenth: "1,234.5". */
export const tenths = (amount) => amount.toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** True for a change that any text would round to nothing. */
export const isNothing = (amount) => amount === null || amount === undefined || Math.abs(amount) < 0.05;

/** About how wide a text is in pixels: letters of half the alphabets are twice as wide as ours. */
export const widthOf = (text, letter) => [...text].reduce((all, one) => all + (one > "\u2e80" ? 2 : 1) * letter, 0);

const BADGE_LETTER = 6.5;
const BADGE_EDGES = 12;

/**
 * What a node's badge says: by how much memory rose while it ran, to what, and its time; with less
 * room, in pixels, no level, then no time. A node that took neither has no badge.
 */
export function badgeText({ peak_vram_mib: peak, growth_mib: growth, seconds: time, cached }, t, room = Infinity) {
  const fits = (text) => widthOf(text, BADGE_LETTER) + BADGE_EDGES <= room;
  if (cached) return fits(t("cached")) ? t("cached") : "";
  const took = time < 0.0005 ? [] : [seconds(time)];
  if (isNothing(growth)) return took.join("");
  const [plus, level] = [signedMib(growth), growthText(growth, peak, t)];
  const texts = [[level, ...took], [plus, ...took], [plus]].map((parts) => parts.join(" · "));
  return texts.find(fits) ?? plus;
}

/** The local time of day of a Unix time in seconds, "14:05:09". */
function clock(unixSeconds) {
  const at = new Date(unixSeconds * 1000);
  return [at.getHours(), at.getMinutes(), at.getSeconds()]
    .map((part) => String(part).padStart(2, "0"))
    .join(":");
}

/** The same with the day where that is not today: "14:05:09", "2026-11-21 14:05:09". */
export function dayAndTime(unixSeconds, now = new Date()) {
  const at = new Date(unixSeconds * 1000);
  const day = (date) => [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, "0")).join("-");
  return day(at) === day(now) ? clock(unixSeconds) : `${day(at)} ${clock(unixSeconds)}`;
}

function rounded(value, digits) {
  const text = value.toFixed(digits);
  return digits ? text.replace(/\.0$/, "") : text;
}
