// "Make it fit": which pieces of advice are needed for a size, and what may be expected of them.

const COSTS = ["none", "seconds", "picture"];

const costOf = (item) => (item.changes_picture ? COSTS.length : Math.max(0, COSTS.indexOf(item.cost)));

/** Advice that can be applied, the least cost first, among equal ones what saves most. */
export function byCost(advice) {
  return advice
    .filter((item) => item.edit)
    .sort((one, other) => costOf(one) - costOf(other) || other.saves_mib[0] - one.saves_mib[0]);
}

/**
 * What of `advice` a run that needs `needs` ([low, high] MiB) takes to fit into `into` MiB.
 * {chosen, expects: [low, high], fits}: savings at different moments of a run do not add up, so that
 * the high end counts only the largest of them and the low end counts all.
 */
export function planFit(advice, needs, into) {
  const chosen = [];
  for (const item of byCost(advice)) {
    if (likely(needs, chosen) <= into) break;
    chosen.push(item);
  }
  return { chosen, expects: expected(needs, chosen), fits: likely(needs, chosen) <= into };
}

const sum = (amounts) => amounts.reduce((total, amount) => total + amount, 0);

/** The larger need less what each piece saves at least. */
const likely = ([, high], chosen) => high - sum(chosen.map((item) => item.saves_mib[0]));

function expected(needs, chosen) {
  const low = Math.max(0, needs[0] - sum(chosen.map((item) => item.saves_mib[1])));
  return [low, Math.max(low, needs[1] - Math.max(0, ...chosen.map((item) => item.saves_mib[0])))];
}
