// Where a new node fits on the canvas. Boxes are [left, top, width, height] in canvas units.

const GAP = 24;

/**
 * The free place nearest to `wanted` for a box of this size: at `wanted` itself, or beside, above or
 * below a box that is in the way. Returns [left, top]; with finitely many boxes there is always one.
 * @param {number[]} wanted
 * @param {number[]} size
 */
export function freePlace([x, y], [width, height], boxes, gap = GAP) {
  const near = (wanted, size, at) =>
    [wanted, ...boxes.flatMap((box) => [box[at] - size - gap, box[at] + box[at + 2] + gap])]
      .sort((one, other) => Math.abs(one - wanted) - Math.abs(other - wanted));
  const [lefts, tops] = [near(x, width, 0), near(y, height, 1)];
  let [best, least] = [[x, y], Infinity];
  for (const left of lefts) {
    if ((left - x) ** 2 >= least) break;
    for (const top of tops) {
      const far = (left - x) ** 2 + (top - y) ** 2;
      if (far >= least) break;
      if (boxes.some((box) => overlap([left, top, width, height], box, gap))) continue;
      [best, least] = [[left, top], far];
    }
  }
  return best;
}

/** Whether two boxes are nearer to each other than `gap`. */
export function overlap(one, other, gap = 0) {
  return [0, 1].every((at) => one[at] < other[at] + other[at + 2] + gap && other[at] < one[at] + one[at + 2] + gap);
}
