"""Any text of Size Sorter gives the sizes in it or one short sentence."""

from hypothesis import given
from hypothesis import strategies as st
from support.properties import steady

from headroom.sizes.sorting import Size
from headroom.sizes.text import MAX_SIZES, parse_sizes

sides = st.integers(1, 9_999_999)
blanks = st.text(" \t\u3000", max_size=3)
# The parser's own words and marks, so that random text comes near to what it reads.
pieces = st.sampled_from(
    [*"0123456789x×*,;#()[]=:\n ，", "heights", "widths=", "height = [", "1024"]
)


@st.composite
def lines(draw):
    """A size and a line that says it in one of the documented ways."""
    size = Size(draw(sides), draw(sides))
    between = draw(st.sampled_from(["x", "×", "X", "*", ",", "，", ";", " "]))
    left, right = draw(st.sampled_from([("", ""), ("(", ")"), ("[", "]")]))
    end = draw(st.sampled_from(["", ",", ";", "# and a comment [1, 2"]))
    parts = [left, str(size.width), between, str(size.height), right, end]
    return size, "".join(draw(blanks) + part for part in parts) + draw(blanks)


@steady
@given(st.lists(st.one_of(lines(), st.sampled_from([(None, ""), (None, "# 1x1")]))))
def test_every_way_to_write_a_size_is_read_in_its_order(written):
    found = parse_sizes("\n".join(line for _, line in written))
    assert found == [size for size, _ in written if size is not None]


@steady
@given(st.lists(sides, max_size=8), st.lists(sides, max_size=8), blanks,
       st.sampled_from(["\n", " ", ",\n"]), st.booleans())
def test_a_pair_of_lists_means_every_combination(heights, widths, blank, between, widths_first):
    texts = [f"heights{blank}={blank}{heights}", f"widths:{blank}{tuple(widths)}"]
    text = between.join(reversed(texts) if widths_first else texts)
    assert parse_sizes(text) == [Size(w, h) for h in heights for w in widths]


def expect_sizes_or_a_sentence(text):
    try:
        found = parse_sizes(text)
    except ValueError as error:
        message = str(error)
        assert message.startswith("Size Sorter cannot read line ") and message.endswith(".")
        assert len(message) < 400 and "\n" not in message
    else:
        assert len(found) <= MAX_SIZES
        assert all(isinstance(size, Size) and min(size) >= 1 for size in found)


@steady
@given(st.text())
def test_any_text_gives_sizes_or_one_short_sentence(text):
    expect_sizes_or_a_sentence(text)


@steady
@given(st.lists(pieces).map("".join))
def test_text_that_looks_like_sizes_gives_sizes_or_one_short_sentence(text):
    expect_sizes_or_a_sentence(text)


@steady
@given(pieces, pieces, pieces, st.sampled_from([1, 100_000]))
def test_long_repetitions_are_read_in_proportion_to_their_length(before, repeated, after, times):
    expect_sizes_or_a_sentence(before + repeated * times + after)
