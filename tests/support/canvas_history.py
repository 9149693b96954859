"""Undo and redo on a canvas at rest: which states the frontend keeps, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Becomes = Callable[[dict[str, Any]], bool]

PROMPT = "async () => (await app.graphToPrompt()).output"
KEEP = """() => { const t = app.extensionManager.workflow.activeWorkflow.changeTracker;
  (t.captureCanvasState ?? t.checkState).call(t); }"""
QUEUES = """() => { const t = app.extensionManager.workflow.activeWorkflow.changeTracker;
  return [t.undoQueue.length, t.redoQueue.length]; }"""
# While an undo or a redo loads its graph, the frontend's present state is the one it came from too.
LOADING = """() => { const t = app.extensionManager.workflow.activeWorkflow.changeTracker;
  return [t.undoQueue, t.redoQueue].some(queue => queue.at(-1) === t.activeState); }"""
# The frontend acts on a key in the next frame. A key that comes up before makes it compare canvas
# and history first, and these differ after every undo of a subgraph (in its sockets' places).
FRAME = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
DRAWN = "() => JSON.stringify((app.rootGraph ?? app.graph).serialize())"
PICTURES = "() => [...document.images].every(image => image.complete)"


def rest(comfy: Any) -> None:
    """Wait until the canvas keeps what it is: loaded, measured, and its pictures drawn.

    A graph loads over frames, its nodes get their sizes later, and a preview grows when its picture
    comes; what is pressed in between would make a step of its own of that.
    """
    last, same = "", 0
    for _ in range(120):
        comfy.page.wait_for_timeout(250)
        comfy.page.evaluate(FRAME)
        drawn = comfy.page.evaluate(DRAWN)
        is_whole = comfy.page.evaluate(PICTURES) and not comfy.page.evaluate(LOADING)
        same = same + 1 if drawn == last and is_whole else 0
        last = drawn
        if same == 3:
            return
    raise AssertionError("the canvas did not come to rest")


def settle(comfy: Any) -> None:
    """Let the frontend keep what is on the canvas at rest, as it does at every click of a user."""
    rest(comfy)
    comfy.page.evaluate(KEEP)


def undo(comfy: Any, becomes: Becomes, key: str = "z") -> None:
    """Press the keys and wait until the prompt is as `becomes` says, and the canvas at rest."""
    before = comfy.page.evaluate(QUEUES)
    comfy.page.locator("canvas#graph-canvas").focus()
    for pressed in ("Control", key):
        comfy.page.keyboard.down(pressed)
        comfy.page.evaluate(FRAME)
    for released in (key, "Control"):
        comfy.page.keyboard.up(released)
    for _ in range(240):
        comfy.page.wait_for_timeout(250)
        if becomes(now := comfy.page.evaluate(PROMPT)):
            break
    else:
        raise AssertionError(f"undo and redo: {before}, then {comfy.page.evaluate(QUEUES)}: {now}")
    rest(comfy)
    assert becomes(comfy.page.evaluate(PROMPT))


def redo(comfy: Any, becomes: Becomes) -> None:
    undo(comfy, becomes, key="y")
