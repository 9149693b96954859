// The settings of the pack, as data: ids are frozen, texts are translated in locales/.

import { keepQueueSetting } from "./left_queue.js";
import { rescueSettings } from "./rescue.js";

export const SHOW_BADGES = "Headroom.Badges.Show";
export const REFRESH_SECONDS = "Headroom.Panel.RefreshSeconds";
export const OFF = "Headroom.Server.Off";

/** Settings that give a new node another starting value: [setting, node class, widget, …]. */
const DEFAULTS = [
  ["PurgeVRAMUnload", "HeadroomPurgeVRAM", "unload", "Purge VRAM: unload", ["all models", "no models"]],
  ["PurgeVRAMFreeRam", "HeadroomPurgeVRAM", "free_ram", "Purge VRAM: free RAM too", false],
  ["OffloadModelTo", "HeadroomOffloadModel", "to", "Offload Model: to", ["CPU", "disk"]],
  ["CastDtype", "HeadroomCastBF16", "dtype", "Cast bf16: dtype", ["bfloat16", "float16", "float32"]],
  ["EncodeCache", "HeadroomEncodeToCPU", "cache", "Encode to CPU: cache", ["off", "disk"]],
  ["OOMGuardTileVae", "HeadroomOOMGuard", "tile_vae", "OOM Guard: tile the VAE", true],
  ["OOMGuardMaxAttempts", "HeadroomOOMGuard", "max_attempts", "OOM Guard: most attempts", 8],
].map(([key, node, widget, name, choice]) => ({ id: `Headroom.Defaults.${key}`, node, widget, name, choice }));

/** Definitions for registerExtension; `onBadges(shown)` is called when that setting changes. */
export function settings(onBadges) {
  return [
    {
      id: SHOW_BADGES,
      category: ["Headroom", "Badges", "Show"],
      name: "Show memory and time on nodes after a run",
      type: "boolean",
      defaultValue: true,
      onChange: onBadges,
    },
    {
      id: REFRESH_SECONDS,
      category: ["Headroom", "Panel", "RefreshSeconds"],
      name: "Seconds between refreshes of the memory panel",
      tooltip: "Only while the panel is open and the page is visible.",
      type: "slider",
      attrs: { min: 0.5, max: 30, step: 0.5 },
      defaultValue: 2,
    },
    ...rescueSettings,
    {
      id: "Headroom.Server.IdleMinutes",
      category: ["Headroom", "Server", "IdleMinutes"],
      name: "Minutes without a prompt until all models are unloaded (0: never)",
      tooltip: "Counts from your next prompt on. HEADROOM_IDLE_MINUTES in the server's environment wins.",
      type: "number",
      attrs: { min: 0, max: 10080, step: 1 },
      defaultValue: 0,
    },
    keepQueueSetting,
    {
      id: "Headroom.Server.KeepRamFree",
      category: ["Headroom", "Server", "KeepRamFree"],
      name: "Make room in RAM before it runs out",
      tooltip: "Below 2 % of RAM, or 1 GiB: idle models go to disk; a prompt that would take the rest is interrupted, and may run again once. Acts when ComfyUI starts. HEADROOM_RAM_FREE_MIB in the server's environment wins.",
      type: "boolean",
      defaultValue: true,
    },
    {
      id: "Headroom.Server.NoProgressSeconds",
      category: ["Headroom", "Server", "NoProgressSeconds"],
      name: "Seconds without progress until a prompt is reported (0: never)",
      tooltip: "In the panel, and as 503 of GET /headroom/ready. Counts from your next prompt on. HEADROOM_NO_PROGRESS_SECONDS in the server's environment wins.",
      type: "number",
      attrs: { min: 0, max: 604800, step: 1 },
      defaultValue: 0,
    },
    {
      id: "Headroom.Server.VramLimit",
      category: ["Headroom", "Server", "VramLimit"],
      name: "Take no more of each GPU than (10 GiB, 80% or off)",
      tooltip: "Counts from your next prompt on. HEADROOM_VRAM_LIMIT in the server's environment wins, and what the panel has set wins over both. Empty: no limit, but on Windows just below what the card has free.",
      type: "text",
      defaultValue: "",
    },
    {
      id: OFF,
      category: ["Headroom", "Server", "Off"],
      name: "Only the nodes: no panel, badges, records and reruns",
      tooltip: "Then start ComfyUI again and load the page anew. HEADROOM_OFF in the server's environment wins.",
      type: "boolean",
      defaultValue: false,
    },
    ...DEFAULTS.map(defaultSetting),
  ];
}

function defaultSetting({ id, name, choice }) {
  const key = id.split(".").at(-1);
  return { id, category: ["Headroom", "New nodes", key], name, ...control(choice) };
}

function control(choice) {
  if (Array.isArray(choice)) return { type: "combo", options: choice, defaultValue: choice[0] };
  if (typeof choice === "boolean") return { type: "boolean", defaultValue: choice };
  return { type: "number", attrs: { min: 1, max: 64, step: 1 }, defaultValue: choice };
}

/**
 * Widths that cut no title, value or button, on the classic canvas and in Nodes 2.0, where the name
 * of the pack's folder, at most "headroom-nodes", stands beside the title; "cached" too beside "headroom".
 */
const NARROWEST = 320;
const WIDTHS = { HeadroomPurgeVRAM: 345, HeadroomSaveConditioning: 355, HeadroomLoadConditioning: 355 };

/** Widen a node of ours that has just been created. */
export function widen(node) {
  if (!node.comfyClass?.startsWith("Headroom") || !node.size) return;
  const width = Math.max(node.size[0], WIDTHS[node.comfyClass] ?? NARROWEST);
  if (width > node.size[0]) node.setSize?.([width, node.size[1]]);
}

/** A saved workflow names this pack as the registry does: a server without it can then say what is missing. */
export function nameThePack(node) {
  if (node.comfyClass?.startsWith("Headroom")) node.properties.cnr_id ??= "headroom-nodes";
}

/** A choice among nothing is shown as nothing: the classic canvas writes "undefined" for it. */
export function showNoChoice(node) {
  if (!node.comfyClass?.startsWith("Headroom")) return;
  for (const widget of node.widgets ?? []) {
    if (widget.type === "combo" && widget.value === undefined) widget.value = "";
  }
}

/**
 * Give a node that has just been created the user's own starting values. A workflow that is being
 * loaded puts its own values over them afterwards. `get(id)` reads a setting.
 */
export function applyDefaults(node, get) {
  for (const { id, node: owner, widget: name, choice } of DEFAULTS) {
    if (node.comfyClass !== owner) continue;
    const widget = node.widgets?.find((candidate) => candidate.name === name);
    const value = get(id);
    const normal = Array.isArray(choice) ? choice[0] : choice;
    if (!widget || value === undefined || value === null || value === normal) continue;
    widget.value = value;
  }
}
