// What the frontend does not promise to packs, each with what is done where it is missing.

/** Nodes of ours are up to 1.45 times as high in Nodes 2.0 as LiteGraph says before they are drawn. */
const NODES2_GROWTH = 1.5;

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

    /** A node that is in no graph yet; null: the page has no such class, or no LiteGraph to ask. */
    createNode: (type) => page.LiteGraph?.createNode(type) ?? null,

    /** By how much a new node may grow when it is drawn; the more where the canvas cannot be told. */
    growth: () => (setting("Comfy.VueNodes.Enabled") === false ? 1 : NODES2_GROWTH),

    /** Let a node show what `look()` gives; without the frontend's class for it there are no badges. */
    addBadge(node, look) {
      if (page.LGraphBadge) node.badges?.push(() => new page.LGraphBadge(look()));
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
