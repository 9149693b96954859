// What the frontend does not promise to packs, each with what is done where it is missing.
import { widthOf } from "./format.js";

/** Nodes of ours are up to 1.45 times as high in Nodes 2.0 as LiteGraph says before they are drawn. */
const NODES2_GROWTH = 1.5;
/** Older frontends draw badges of Nodes 2.0 beside the title, in nodes at least so wide; newer ones below. */
const BESIDE_TITLES = ".lg-node-header > div > div + div";
const NODES2_WIDTH = 225;
const NODES2_EDGES = 85;
const TITLE_LETTER = 8;

/**
 * `app` is the frontend's, `page` the window that it puts its classes into.
 * @param {Frontend} app
 * @param {any} page
 */
export function createFrontend(app, page) {
  const manager = () => app.extensionManager;
  const setting = (id) => manager().setting.get(id);
  return {
    setting,

    /** The open workflow as ComfyUI would queue it. Use Everywhere makes its wires only for that, or when asked. */
    async prompt() {
      const { output } = await app.graphToPrompt();
      const queued = (await /** @type {any} */ (app).ue_modified_prompt?.())?.output ?? {};
      for (const [id, { inputs }] of Object.entries(output)) {
        const wires = Object.entries(queued[id]?.inputs ?? {}).filter(([name, value]) => Array.isArray(value) && !Array.isArray(inputs[name]));
        Object.assign(inputs, Object.fromEntries(wires));
      }
      return output;
    },

    /** A node that is in no graph yet; null: the page has no such class, or no LiteGraph to ask. */
    createNode: (type) => page.LiteGraph?.createNode(type) ?? null,

    /** By how much a new node may grow when it is drawn; the more where the canvas cannot be told. */
    growth: () => (setting("Comfy.VueNodes.Enabled") === false ? 1 : NODES2_GROWTH),

    /** Let a node show what `look()` gives; without the frontend's class for it there are no badges. */
    addBadge(node, look) {
      if (page.LGraphBadge) node.badges?.push(() => new page.LGraphBadge(look()));
    },

    /** The pixels that a badge may take without cutting the node's title; no limit where it is not beside it. */
    badgeRoom(node) {
      if (!setting("Comfy.VueNodes.Enabled") || !page.document?.querySelector(BESIDE_TITLES)) return Infinity;
      const [, pack = ""] = /^custom_nodes\.(.+)/.exec(node.constructor?.nodeData?.python_module ?? "") ?? [];
      const beside = widthOf(`${node.title ?? ""}${pack && `  ${pack}`}`, TITLE_LETTER);
      return Math.max(node.size?.[0] ?? 0, NODES2_WIDTH) - NODES2_EDGES - beside;
    },

    /** The tab as the frontend keeps it, which is reactive; ours where it keeps none. */
    tabOf: (tab) => manager().getSidebarTabs?.().find((known) => known.id === tab.id) ?? tab,

    version: () => String(page.__COMFYUI_FRONTEND_VERSION__ ?? "unknown"),

    /** The file of the workflow on the canvas; "" where that is not told. */
    workflowPath: () => manager().workflow?.activeWorkflow?.path ?? "",

    /**
     * Call `listener()` when the user has chosen another language. The frontend tells a value before
     * it keeps it. Where it tells nothing, the panel notices at its next look at the memory.
     */
    onLanguage(listener) {
      app.ui?.settings?.addEventListener?.("Comfy.Locale.change", () => setTimeout(listener));
    },
  };
}
