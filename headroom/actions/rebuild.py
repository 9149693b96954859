"""Rebuild a value around replaced parts: to any depth, through cycles, without recursion.

What holds a replaced part is rebuilt, and so is every plain list and dict; the rest goes into the
new value as it is. What can be changed is copied first and filled later, so that a cycle ends in
the copy.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .containers import Kind, is_leaf, kind_of

MAX_PATH_STEPS = 12

# What copying, making or filling an unusual subclass of a container raises.
_CANNOT = (TypeError, ValueError, AttributeError, copy.Error)


@dataclass(eq=False)
class Node:
    """One container: how to take it apart, what is inside, and how one came to it."""

    value: Any
    kind: Kind
    items: list[Any]
    parent: "Node | None" = None
    number: int = 0

    @property
    def path(self) -> str:
        """Where the container is, from `value` on; the middle of a long way is left out."""
        steps: list[str] = []
        node = self
        while node.parent is not None:
            steps.append(node.parent.kind.step(node.parent.value, node.number))
            node = node.parent
        if len(steps) > MAX_PATH_STEPS:
            half = MAX_PATH_STEPS // 2
            steps[half:-half] = [f"[... {len(steps) - 2 * half} more ...]"]
        return "value" + "".join(reversed(steps))

    def path_to(self, number: int) -> str:
        return self.path + self.kind.step(self.value, number)


class Rebuilding:
    """One value being rebuilt.

    `visit`(part, path) sees every part once that is neither a container nor a leaf, and returns
    what to put in its place, or the part itself. `left`(value, path) hears of containers that
    could not be rebuilt. `path` is a function in both: most parts are never named.
    """

    def __init__(
        self, visit: Callable[[Any, Callable[[], str]], Any],
        left: Callable[[Any, Callable[[], str]], Any],
    ) -> None:
        self._visit = visit
        self._left = left
        self._nodes: dict[int, Node] = {}  # by the id of the old container, which they keep alive
        self._seen: set[int] = set()
        self._new: dict[int, Any] = {}  # by the id of the old part
        self._to_change: set[int] = set()

    def rebuild(self, value: Any) -> Any:
        """Return the new value, or `value` itself where nothing in it was replaced."""
        root = self._enter(value, lambda: "value", None, 0)
        order = list(self._discover(root)) if root is not None else []
        changed = self._changed(order)
        for node in changed:
            if node.kind.fill is not None:
                self._attempt(node, node.kind.shallow, node.value)
        for node in changed:
            if node.kind.fill is None:
                self._make(node)
            elif self._new[id(node.value)] is not node.value:
                self._fill(node)
        return self._new.get(id(value), value)

    def _enter(
        self, part: Any, path: Callable[[], str], parent: Node | None, number: int
    ) -> Node | None:
        """Return a node for a container that was not met before; let `visit` see other parts."""
        if is_leaf(part) or id(part) in self._seen:
            return None
        self._seen.add(id(part))
        kind = kind_of(part)
        if kind is None:
            new = self._visit(part, path)
            if new is not part:
                self._new[id(part)] = new
            return None
        node = Node(part, kind, kind.items(part), parent, number)
        self._nodes[id(part)] = node
        return node

    def _discover(self, root: Node) -> Iterator[Node]:
        """Yield every container below `root`, each after what is inside it, where no cycle is."""
        stack = [(root, enumerate(root.items))]
        while stack:
            node, rest = stack[-1]
            for number, item in rest:
                inside = self._enter(item, self._path(node, number), node, number)
                if inside is not None:
                    stack.append((inside, enumerate(inside.items)))
                    break
            else:
                stack.pop()
                yield node

    @staticmethod
    def _path(node: Node, number: int) -> Callable[[], str]:
        return lambda: node.path_to(number)

    def _changed(self, order: list[Node]) -> list[Node]:
        """Return what must be rebuilt, in the same order."""
        holders: dict[int, list[Node]] = {}
        for node in order:
            for item in node.items:
                holders.setdefault(id(item), []).append(node)
        work = [node for node in order if type(node.value) in (list, dict)]
        work += [node for part in self._new for node in holders.get(part, [])]
        while work:
            node = work.pop()
            if id(node.value) not in self._to_change:
                self._to_change.add(id(node.value))
                work += holders.get(id(node.value), [])
        return [node for node in order if id(node.value) in self._to_change]

    def _make(self, node: Node) -> None:
        """Make what cannot be filled later; in a cycle, what it needs of that sort before it."""
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [item for item in top.items if self._is_unmade(item)]
            stack += [self._nodes[id(item)] for item in missing]
            if not missing:
                stack.pop()
                if top.kind.make is not None and self._is_unmade(top.value):
                    self._attempt(top, top.kind.make, top.value, self._results(top))

    def _is_unmade(self, part: Any) -> bool:
        return id(part) in self._to_change and id(part) not in self._new

    def _fill(self, node: Node) -> None:
        for item in node.items:
            if self._is_unmade(item):
                self._make(self._nodes[id(item)])
        new = self._new[id(node.value)]
        try:
            if node.kind.fill is not None:
                node.kind.fill(node.value, new, self._results(node))
        except _CANNOT:
            self._left(node.value, lambda: node.path)

    def _attempt(self, node: Node, make: Callable[..., Any], *arguments: Any) -> None:
        """Make the new container; one that cannot be made stays in its place as it is."""
        self._new[id(node.value)] = node.value
        try:
            self._new[id(node.value)] = make(*arguments)
        except _CANNOT:
            self._left(node.value, lambda: node.path)

    def _results(self, node: Node) -> list[Any]:
        return [self._new.get(id(item), item) for item in node.items]
