"""Why a request is refused; each message is one sentence for who asked.

It is a phrase with a key, so that a page can show it in its own language.
"""

from .said import Said


class NotKnown(LookupError):
    """Nothing is known under this id."""

    def __init__(self, sentence: Said) -> None:
        super().__init__(sentence)


class Refused(RuntimeError):
    """It cannot be done, or not now."""

    def __init__(self, sentence: Said) -> None:
        super().__init__(sentence)
