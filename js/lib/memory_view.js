// The panel's part about memory: a bar for each device and for RAM, what is left to others, the limit.
import { h } from "./dom.js";
import { dayAndTime, mib } from "./format.js";
import { phrase } from "./say.js";

/** Parts of a bar: what each is called, and what it is. */
const PARTS = {
  models: [phrase("Models"), phrase("Weights of the models that ComfyUI has loaded")],
  inUse: [phrase("In use besides models"), phrase("Activations, latents, pictures and other tensors of this server")],
  cache: [phrase("torch's cache (reusable)"), phrase("Given back by tensors and kept by torch for the next ones; Purge VRAM returns it to the driver")],
  otherTorch: [phrase("Other torch"), phrase("Activations, latents and the allocator's cache of this server")],
  otherProcesses: [phrase("All else"), phrase("Other programs, and what the driver keeps for each program, for this server too")],
  thisServer: [phrase("This server")],
  elsewhere: [phrase("Other programs")],
  free: [phrase("Free"), phrase("What the driver can still give")],
  aboveLimit: [phrase("Above the limit"), phrase("Free, but this server takes no more than its limit")],
};

/**
 * One card for each device and one for RAM.
 * @param {Memory} memory
 * @param {Say} t
 */
export function memoryCards(memory, t) {
  const held = memory.peaks ?? { devices: {}, rss_mib: null };
  const devices = memory.devices.map((device) => deviceCard(device, held.devices[device.device], t));
  const none = h("p.headroom-quiet", {}, t("No GPU: this server runs its models on the CPU."));
  return [...(devices.length ? devices : [none]), ramCard(memory.ram, held.rss_mib, t)];
}

/**
 * Since when peaks are held, and a button that begins anew; nothing from servers that hold none.
 * @param {Memory} memory
 * @param {Say} t
 */
export function heldPeaks(memory, t, onReset) {
  if (!memory.peaks) return [];
  const since = t("Highest since {time}", { time: dayAndTime(memory.peaks.since) });
  const reset = h("button.headroom-button", { type: "button", "data-focus": "reset", title: t("Forget the peaks until now"), onclick: onReset }, t("Reset"));
  return [h("div.headroom-line.headroom-held", {}, h("span", {}, since), reset)];
}

/**
 * A slider for what is left to other programs; nothing where the server offers no way.
 * @param {Memory} memory
 * @param {Say} t
 */
export function reserveControl(memory, t, onReserve) {
  const most = Math.max(0, ...memory.devices.map((device) => device.total_mib ?? 0));
  if (memory.reserve_mib === null || memory.reserve_mib === undefined || !most) return [];
  const amount = h("b", {}, mib(memory.reserve_mib));
  const slider = h("input", {
    type: "range", "data-focus": "reserve", min: 0, max: Math.floor(most / 2), step: 64, value: memory.reserve_mib,
    title: t("VRAM that ComfyUI's dynamic VRAM leaves to other programs, from now on"),
    "aria-label": t("Leave to others"), "aria-valuetext": mib(memory.reserve_mib),
    oninput: ({ currentTarget: moved }) => {
      moved.ariaValueText = mib(Number(moved.value));
      amount.textContent = moved.ariaValueText;
    },
    onchange: (event) => onReserve(Number(event.currentTarget.value)),
  });
  return [h("label.headroom-line.headroom-reserve", {}, h("span", {}, t("Leave to others")), slider, amount)];
}

/**
 * A field for the most that this server takes of each GPU, and what of it cannot be held.
 * @param {Memory} memory
 * @param {Say} t
 */
export function limitControl(memory, t, onLimit) {
  if (!memory.limit || !memory.devices.length) return [];
  const field = h("input.headroom-limit", {
    type: "text", "data-focus": "limit", value: memory.limit.limit ?? "", placeholder: t("no limit"),
    title: t("The most that this server takes of each GPU, from now on: 10 GiB, 80% or off"), "aria-label": t("VRAM limit"),
    onchange: (event) => onLimit(event.currentTarget.value || "off"),
  });
  const told = memory.limit.not_limited.map((one) => h("p.headroom-quiet", { "data-not-limited": "" }, t.said(one.said, one.text)));
  return [h("label.headroom-line.headroom-reserve", {}, h("span", {}, t("VRAM limit")), field), ...told];
}

function deviceCard(device, held, t) {
  const parts = [
    ["models", device.models_mib],
    ...torchParts(device),
    ["otherProcesses", device.other_processes_mib],
    ...freeParts(device),
  ].filter(([, amount]) => amount !== null && amount !== undefined);
  const known = device.total_mib ?? sum(parts);
  const used = mib(device.used_mib);
  const line = device.total_mib ? t("{used} of {total} used", { used, total: mib(known) }) : t("{used} used by this server", { used });
  return card(device.device, device.name, line, { parts, total: known, held }, t);
}

/** What is free: to this server, and what its limit leaves to others. */
function freeParts({ free_mib: free, left_mib: left }) {
  if (free === null || left === null || left === undefined || left >= free) return [["free", free]];
  return [["free", left], ["aboveLimit", free - left]];
}

/** torch's memory besides models: what tensors use, and what it only keeps for the next ones. */
export function torchParts({ other_torch_mib: other, allocated_mib: allocated, reserved_mib: reserved }) {
  if (allocated === null || allocated === undefined || reserved === null || reserved === undefined) {
    return [["otherTorch", other]];
  }
  const cache = Math.min(Math.max(reserved - allocated, 0), other);
  return [["inUse", other - cache], ["cache", cache]];
}

function ramCard(ram, held, t) {
  const parts = [
    ["thisServer", ram.rss_mib],
    ["elsewhere", Math.max(0, ram.total_mib - ram.available_mib - ram.rss_mib)],
    ["free", ram.available_mib],
  ];
  const used = { used: mib(ram.total_mib - ram.available_mib), total: mib(ram.total_mib) };
  return card("ram", t("RAM"), t("{used} of {total} used", used), { parts, total: ram.total_mib, held }, t);
}

function card(id, name, usage, { parts, total, held }, t) {
  const label = parts.map(([key, amount]) => `${t(PARTS[key][0])} ${mib(amount)}`).join(t(", "));
  return h(
    "div.headroom-card",
    { "data-device": id },
    h("div.headroom-line", {}, h("strong", { title: id }, name), h("span", {}, usage)),
    h(
      "div.headroom-bar",
      { role: "img", "aria-label": `${name}: ${label}` },
      parts.map(([key, amount]) => segment(key, amount, total, t)),
      isHeld(held) && total > 0 ? peakMark(held, total, id === "ram" ? t("Highest of this server") : t("Highest")) : null,
    ),
    h(
      "div.headroom-legend",
      {},
      parts.map(([key, amount]) => legend(key, amount, t)),
      isHeld(held) ? peakLegend(held, id === "ram" ? t("Highest of this server") : t("Highest")) : null,
    ),
  );
}

const isHeld = (held) => held !== null && held !== undefined;

/** A line in the bar at the highest use that is held. For RAM it is this server's alone. */
function peakMark(held, total, name) {
  const left = `${Math.min(100, (held / total) * 100).toFixed(3)}%`;
  return h("i.headroom-peak-mark", { style: { left }, title: `${name}: ${mib(held)}`, "data-held": held });
}

function segment(key, amount, total, t) {
  const share = total > 0 ? Math.max(0, (amount / total) * 100) : 0;
  return h("span", {
    class: `headroom-part-${key}`,
    style: { width: `${share.toFixed(3)}%` },
    title: `${t(PARTS[key][0])}: ${mib(amount)}`,
  });
}

function legend(key, amount, t) {
  return h(
    "span.headroom-key",
    { title: PARTS[key][1] && t(PARTS[key][1]), "data-part": key, "data-mib": amount },
    h(`i.headroom-part-${key}`),
    h("span", {}, t(PARTS[key][0])),
    h("b", {}, mib(amount)),
  );
}

function peakLegend(held, name) {
  return h("span.headroom-key", { "data-peak": held }, h("i.headroom-peak-key"), h("span", {}, name), h("b", {}, mib(held)));
}

function sum(parts) {
  return parts.reduce((total, [, amount]) => total + amount, 0);
}
