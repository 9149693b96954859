"""The newest entries of a store: of runs, or of what was found about them."""

from collections import OrderedDict
from typing import TypeVar

from ..base.said import said

MOST = 50
NO_RECORD = said(
    "No record of this prompt: it has not begun yet, or is older than the last runs that are kept."
)
Key = TypeVar("Key")
Value = TypeVar("Value")


class Newest(OrderedDict[Key, Value]):
    """The MOST entries that were set last, oldest first."""

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > MOST:
            self.popitem(last=False)
