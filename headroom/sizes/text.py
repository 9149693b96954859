"""Read picture sizes from text: one per line, or lists of heights and widths to combine."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ..base.inputs import shown
from ..base.said import said
from .sorting import Size

# The most runs of one list: far more than a server does in a day, and quickly made.
MAX_SIZES = 10_000

# In the text for these patterns each run of blanks is one blank: `\s*` has only one way to match.
# `1024x1152`, `1024 × 1152`, `1024, 1152`, `1024 1152`
_PAIR = re.compile(
    r"[\[(]?\s*(\d{1,7})(?:\s*[x×X*,，;]\s*|\s+)(\d{1,7})\s*[\])]?\s*[,，;]?", re.ASCII
)
# ASCII only: otherwise a dotless i matches an i, and the word is neither of the two.
_WORD = re.IGNORECASE | re.ASCII
_LIST = re.compile(r"(heights?|widths?)\s*[=:]\s*[\[(]([^\])]*)[\])]", _WORD)
_NUMBER = re.compile(r"\d{1,7}", re.ASCII)


class _Statement(NamedTuple):
    """A line without its comment."""

    number: int
    text: str


class _Waiting(NamedTuple):
    """A list of heights or widths without its counterpart so far."""

    kind: str
    numbers: list[int]
    statement: _Statement


def parse_sizes(text: str) -> list[Size]:
    """Return the sizes in `text`, width first, in their order there.

    Each line is one size (`1024x1152`, `1024×1152` or `1024, 1152`); `#` starts a comment. A pair
    `heights=[...] widths=[...]` means every combination, heights in the outer loop. Raises
    ValueError with number and text of the first line that is neither, or with which there are more
    sizes than MAX_SIZES. The time grows in proportion to the text and the sizes.
    """
    sizes: list[Size] = []
    waiting: _Waiting | None = None
    for statement in _statements(text):
        pair = _PAIR.fullmatch(statement.text)
        if pair is not None:
            _must_be_paired(waiting)
            _expect_few(len(sizes) + 1, statement)
            sizes.append(_size(int(pair[1]), int(pair[2]), statement))
            continue
        for kind, numbers in _lists(statement):
            if waiting is None or waiting.kind == kind:
                _must_be_paired(waiting)
                waiting = _Waiting(kind, numbers, statement)
                continue
            _expect_few(len(sizes) + len(numbers) * len(waiting.numbers), statement)
            lists = {kind: numbers, waiting.kind: waiting.numbers}
            sizes += [_size(width, height, statement)
                      for height in lists["height"] for width in lists["width"]]
            waiting = None
    _must_be_paired(waiting)
    return sizes


def _statements(text: str) -> Iterator[_Statement]:
    for number, line in enumerate(text.splitlines(), start=1):
        if content := " ".join(line.split("#", 1)[0].split()):
            yield _Statement(number, content)


def _lists(statement: _Statement) -> Iterator[tuple[str, list[int]]]:
    """Yield ("height" or "width", numbers) for each list; there must be nothing but lists."""
    found = list(_LIST.finditer(statement.text))
    rest = _LIST.sub("", statement.text).strip(" ,;，")
    if not found or rest:
        raise _malformed(statement)
    for match in found:
        entries = [entry.strip() for entry in match[2].split(",")]
        numbers = [entry for entry in entries if entry]
        for entry in numbers:
            if not _NUMBER.fullmatch(entry):
                raise _malformed(statement, said(
                    "{given} is not a whole number of pixels", given=shown(entry)))
        yield match[1].lower().rstrip("s"), [int(entry) for entry in numbers]


def _size(width: int, height: int, statement: _Statement) -> Size:
    if width < 1 or height < 1:
        raise _malformed(statement, said("both sides must be at least 1 px"))
    return Size(width, height)


def _expect_few(count: int, statement: _Statement) -> None:
    if count > MAX_SIZES:
        raise _malformed(statement, said(
            "with it the list has {count} sizes, and at most {most} are sorted at once",
            count=f"{count:,}", most=f"{MAX_SIZES:,}"))


def _must_be_paired(waiting: _Waiting | None) -> None:
    if waiting is not None:
        other = "widths" if waiting.kind == "height" else "heights"
        raise _malformed(waiting.statement, said(
            "{these}=[...] needs {others}=[...] beside it or on the next line",
            these=f"{waiting.kind}s", others=other))


def _malformed(statement: _Statement, reason: str = "") -> ValueError:
    shown = statement.text if len(statement.text) <= 80 else statement.text[:77] + "..."
    wanted = reason or said("write one size such as 1024x1152, or heights=[...] widths=[...]")
    return ValueError(said('Size Sorter cannot read line {number} of `sizes`, "{line}": {wanted}.',
                           number=statement.number, line=shown, wanted=wanted))
