"""The type that fits every other one, as packs write it."""


class _Anything(str):
    def __ne__(self, other):
        return False

    __eq__, __hash__ = str.__eq__, str.__hash__


ANYTHING = _Anything("*")
