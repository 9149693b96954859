"""What the tests of the browser run inside a page of ComfyUI."""

from __future__ import annotations

READY = "() => window.app?.extensionManager && window.app.canvas?.graph && window.app.graph"
MESSAGE = ".p-toast-message, [data-testid='toast']"
# Messages are gone after seconds, on a busy machine before a test looks: the page keeps each one.
KEEP_MESSAGES = """window.told = [];
new MutationObserver(() => { for (const each of document.querySelectorAll("MESSAGE")) {
  const text = each.innerText;
  if (text && !told.includes(text)) told.push(text); } })
  .observe(document, { childList: true, subtree: true, characterData: true });
""".replace("MESSAGE", MESSAGE)
# What is measured is right once the fonts are there, and stays where it is once frames are alike:
# nodes get their sizes over the frames after they were made, however long these take.
SETTLED = """async () => {
  await document.fonts.ready;
  const { canvas } = app, frame = () => new Promise(requestAnimationFrame);
  const places = () => JSON.stringify([canvas.canvas.width, canvas.canvas.height,
    canvas.ds.scale, ...canvas.ds.offset,
    (canvas.graph?._nodes ?? []).map(({ id, pos, size }) => [id, ...pos, ...size]),
    [...document.querySelectorAll("[data-node-id]")].map(each => {
      const { x, y, width, height } = each.getBoundingClientRect(); return [x, y, width, height];
    })]);
  let last = "", alike = 0;
  for (let left = 600; left && alike < 5; left -= 1) {
    canvas.setDirty(true, true);
    await frame();
    const now = places();
    alike = now === last ? alike + 1 : 0;
    last = now; }
  if (alike < 5) throw new Error("the canvas did not come to rest"); }"""
# In newer frontends the second.
NO_MESSAGES = """{ const { toast } = app.extensionManager;
  (toast.removeAll ?? toast.dismissAll)(); }"""
# A loaded page as a new one: no dialog, sidebar, offer or message, and the workflow it begins with.
AS_NEW = """async () => {
  for (const dialog of document.querySelectorAll(".p-dialog-close-button")) dialog.click();
  app.extensionManager.dialog?.closeDialog?.();
  app.extensionManager.sidebarTab.activeSidebarTabId = null;
  document.querySelector(".headroom-toast header button")?.click();
  NO_MESSAGES
  await app.loadGraphData(); }""".replace("NO_MESSAGES", NO_MESSAGES)
CHANGE = """async ([name, value]) => { const { setting } = app.extensionManager;
  const before = setting.get(name); await setting.set(name, value); return before; }"""
GONE = f"""() => !document.querySelector(".headroom-panel, .p-dialog-mask, {MESSAGE}")"""
# Titles of nodes that Nodes 2.0 ends with an ellipsis.
CUT_TITLES = """() => [...document.querySelectorAll("[data-node-id] *")]
    .filter(each => getComputedStyle(each).textOverflow === "ellipsis"
      && each.scrollWidth > each.clientWidth).map(each => each.innerText?.trim())
    .filter(text => app.graph._nodes.some(node => node.title === text))"""
