// The upper half of the panel: a bar for each device and the list of loaded models.
import { h } from "./dom.js";
import { dayAndTime, mib } from "./format.js";
import { kindText } from "./said.js";
import { fill } from "./words.js";

/**
 * One card for each device and one for RAM.
 * @param {Memory} memory
 * @param {Words} words
 */
export function memoryCards(memory, words) {
  const held = memory.peaks ?? { devices: {}, rss_mib: null };
  const devices = memory.devices.map((device) => deviceCard(device, held.devices[device.device], words));
  const none = h("p.headroom-quiet", {}, words.noGpu);
  return [...(devices.length ? devices : [none]), ramCard(memory.ram, held.rss_mib, words)];
}

/**
 * Since when peaks are held, and a button that begins anew; nothing from servers that hold none.
 * @param {Memory} memory
 * @param {Words} words
 */
export function heldPeaks(memory, words, onReset) {
  if (!memory.peaks) return [];
  const since = fill(words.heldSince, { time: dayAndTime(memory.peaks.since) });
  const reset = h("button.headroom-button", { type: "button", "data-focus": "reset", title: words.heldResetTip, onclick: onReset }, words.heldReset);
  return [h("div.headroom-line.headroom-held", {}, h("span", {}, since), reset)];
}

/**
 * A slider for what is left to other programs; nothing where the server offers no way.
 * @param {Memory} memory
 * @param {Words} words
 */
export function reserveControl(memory, words, onReserve) {
  const most = Math.max(0, ...memory.devices.map((device) => device.total_mib ?? 0));
  if (memory.reserve_mib === null || memory.reserve_mib === undefined || !most) return [];
  const amount = h("b", {}, mib(memory.reserve_mib));
  const slider = h("input", {
    type: "range", "data-focus": "reserve", min: 0, max: Math.floor(most / 2), step: 64, value: memory.reserve_mib,
    title: words.reserveTip, "aria-label": words.reserve,
    oninput: (event) => amount.replaceChildren(mib(Number(event.currentTarget.value))),
    onchange: (event) => onReserve(Number(event.currentTarget.value)),
  });
  return [h("label.headroom-line.headroom-reserve", {}, h("span", {}, words.reserve), slider, amount)];
}

function deviceCard(device, held, words) {
  const parts = [
    ["models", device.models_mib],
    ...torchParts(device),
    ["otherProcesses", device.other_processes_mib],
    ["free", device.free_mib],
  ].filter(([, amount]) => amount !== null && amount !== undefined);
  const known = device.total_mib ?? sum(parts);
  const used = mib(device.used_mib);
  const line = device.total_mib ? words.used : words.usedHere;
  return card(device.device, device.name, fill(line, { used, total: mib(known) }), { parts, total: known, held }, words);
}

/** torch's memory besides models: what tensors use, and what it only keeps for the next ones. */
export function torchParts({ other_torch_mib: other, allocated_mib: allocated, reserved_mib: reserved }) {
  if (allocated === null || allocated === undefined || reserved === null || reserved === undefined) {
    return [["otherTorch", other]];
  }
  const cache = Math.min(Math.max(reserved - allocated, 0), other);
  return [["inUse", other - cache], ["cache", cache]];
}

function ramCard(ram, held, words) {
  const parts = [
    ["thisServer", ram.rss_mib],
    ["elsewhere", Math.max(0, ram.total_mib - ram.available_mib - ram.rss_mib)],
    ["free", ram.available_mib],
  ];
  const used = { used: mib(ram.total_mib - ram.available_mib), total: mib(ram.total_mib) };
  return card("ram", words.ram, fill(words.used, used), { parts, total: ram.total_mib, held }, words);
}

function card(id, name, usage, { parts, total, held }, words) {
  const label = parts.map(([key, amount]) => `${words[key]} ${mib(amount)}`).join(words.rescueComma);
  return h(
    "div.headroom-card",
    { "data-device": id },
    h("div.headroom-line", {}, h("strong", { title: id }, name), h("span", {}, usage)),
    h(
      "div.headroom-bar",
      { role: "img", "aria-label": `${name}: ${label}` },
      parts.map(([key, amount]) => segment(key, amount, total, words)),
      isHeld(held) && total > 0 ? peakMark(held, total, id === "ram" ? words.heldPeakRam : words.heldPeak) : null,
    ),
    h(
      "div.headroom-legend",
      {},
      parts.map(([key, amount]) => legend(key, amount, words)),
      isHeld(held) ? peakLegend(held, id === "ram" ? words.heldPeakRam : words.heldPeak) : null,
    ),
  );
}

const isHeld = (held) => held !== null && held !== undefined;

/** A line in the bar at the highest use that is held. For RAM it is this server's alone. */
function peakMark(held, total, name) {
  const left = `${Math.min(100, (held / total) * 100).toFixed(3)}%`;
  return h("i.headroom-peak-mark", { style: { left }, title: `${name}: ${mib(held)}`, "data-held": held });
}

function segment(key, amount, total, words) {
  const share = total > 0 ? Math.max(0, (amount / total) * 100) : 0;
  return h("span", {
    class: `headroom-part-${key}`,
    style: { width: `${share.toFixed(3)}%` },
    title: `${words[key]}: ${mib(amount)}`,
  });
}

function legend(key, amount, words) {
  return h(
    "span.headroom-key",
    { title: words[`${key}Tip`], "data-part": key, "data-mib": amount },
    h(`i.headroom-part-${key}`),
    h("span", {}, words[key]),
    h("b", {}, mib(amount)),
  );
}

function peakLegend(held, name) {
  return h("span.headroom-key", { "data-peak": held }, h("i.headroom-peak-key"), h("span", {}, name), h("b", {}, mib(held)));
}

function sum(parts) {
  return parts.reduce((total, [, amount]) => total + amount, 0);
}

/**
 * The loaded models, the largest on the GPU first, each with a button; `off` says why it is off.
 * @param {Memory} memory
 * @param {string | null} off
 * @param {Words} words
 */
export function modelList(memory, off, words, onOffload) {
  if (!memory.models.length) return [h("p.headroom-quiet", {}, words.noModels)];
  return [...memory.models]
    .sort((one, other) => other.loaded_mib - one.loaded_mib || other.total_mib - one.total_mib)
    .map((model) => modelRow(model, off, words, onOffload));
}

/**
 * What other packs hold that ComfyUI does not manage.
 * @param {Memory} memory
 * @param {Words} words
 */
export function foreignLines(memory, words) {
  return (memory.foreign ?? []).map(({ pack, classes, mib: held }) => {
    const values = { held: mib(held), pack, classes: classes.join(words.rescueComma) };
    return h("p.headroom-quiet", { "data-foreign": pack ?? "" }, fill(pack ? words.foreign : words.foreignOfNobody, values));
  });
}

/** What a model is called: its file where that is known. */
export const nameOf = (model) => model.file ?? model.class;

function modelRow(model, off, words, onOffload) {
  const share = model.total_mib > 0 ? Math.min(100, (model.loaded_mib / model.total_mib) * 100) : 0;
  return h(
    "div.headroom-model",
    { "data-model": model.id, role: "listitem" },
    h(
      "div.headroom-model-text",
      {},
      h("div", {}, h("strong", { title: model.class }, nameOf(model)), h("em", {}, kindText(model.kind, words))),
      h("div.headroom-quiet", {}, amountOnGpu(model, words)),
      h("div.headroom-thin", {}, h("span.headroom-part-models", { style: { width: `${share}%` } })),
    ),
    h(
      "button.headroom-button",
      {
        type: "button",
        "data-focus": `offload ${model.id}`,
        disabled: Boolean(off) || model.loaded_mib <= 0,
        title: off || words.offloadTip,
        "aria-label": fill(words.offloadNamed, { name: nameOf(model) }),
        onclick: (event) => {
          event.currentTarget.disabled = true;
          onOffload(model);
        },
      },
      words.offload,
    ),
  );
}

function amountOnGpu(model, words) {
  const values = { loaded: mib(model.loaded_mib), total: mib(model.total_mib) };
  if (model.loaded_mib <= 0) return fill(words.inRam, values);
  return fill(values.loaded === values.total ? words.wholly : words.partly, values);
}
