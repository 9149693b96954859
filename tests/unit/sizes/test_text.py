"""Size Sorter's text: what it reads, and what it says about a line that it cannot read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import steady

from headroom.sizes.sorting import Size
from headroom.sizes.text import MAX_SIZES, parse_sizes


def test_blank_lines_and_comments_are_skipped():
    text = "# sizes of the article\n\n1024x1024\r\n   \n# 9x9\n1360x1536 # last\n"
    assert parse_sizes(text) == [Size(1024, 1024), Size(1360, 1536)]


@pytest.mark.parametrize("text", [
    "heights=[1, 2] widths=[3, 4]",
    "heights = [1, 2]\nwidths = [3, 4]",
    "widths=[3,4], heights=[1,2]",
    "widths: [3, 4]; heights: [1, 2]",
    "heights = [1, 2,]  # low\nwidths = [3, 4,]",
    "HEIGHTS=(1, 2) WIDTHS=(3, 4)",
])
def test_lists_of_heights_and_widths_mean_every_combination_heights_outside(text):
    assert parse_sizes(text) == [Size(3, 1), Size(4, 1), Size(3, 2), Size(4, 2)]


def test_lists_and_lines_can_be_mixed_and_lists_can_repeat():
    text = "5x6\nheights=[1] widths=[2]\n7x8\nheights=[3] widths=[4, 5]"
    assert parse_sizes(text) == [Size(5, 6), Size(2, 1), Size(7, 8), Size(4, 3), Size(5, 3)]


def test_an_empty_list_combines_to_nothing():
    assert parse_sizes("heights=[] widths=[1, 2]") == []


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_no_lines_are_no_sizes(text):
    assert parse_sizes(text) == []


@pytest.mark.parametrize(("text", "number", "shown"), [
    ("1024x1024\nbig", 2, "big"),
    ("# one\n\n1024", 3, "1024"),
    ("1024x", 1, "1024x"),
    ("1024x1024x3", 1, "1024x1024x3"),
    ("-1024x1024", 1, "-1024x1024"),
    ("10.5x20", 1, "10.5x20"),
    ("512x512 768x768", 1, "512x512 768x768"),
    ("99999999x1", 1, "99999999x1"),
    ("٣x٤", 1, "٣x٤"),
    ("sizes=[1, 2]", 1, "sizes=[1, 2]"),
    ("heights=[1] widths=[2] and more", 1, "heights=[1] widths=[2] and more"),
    ("open (bracket\n512x512", 1, "open (bracket"),
    ("1x1\nheights=[1,\n2]", 2, "heights=[1,"),
])
def test_a_malformed_line_is_named_with_its_number_and_text(text, number, shown):
    with pytest.raises(ValueError) as caught:
        parse_sizes(text)
    assert f'cannot read line {number} of `sizes`, "{shown}"' in str(caught.value)
    assert "write one size such as 1024x1152" in str(caught.value)


@pytest.mark.parametrize(("text", "number", "reason"), [
    ("0x512", 1, "at least 1 px"),
    ("1x1\nheights=[1, 0]\nwidths=[1]", 3, "at least 1 px"),
    ("heights=[1, two] widths=[3]", 1, "'two' is not a whole number of pixels"),
    ("1x1\nheights=[1, 2]", 2, "heights=[...] needs widths=[...]"),
    ("widths=[1]\nwidths=[2]", 1, "widths=[...] needs heights=[...]"),
    ("heights=[1]\n512x512\nwidths=[2]", 1, "heights=[...] needs widths=[...]"),
])
def test_a_line_that_is_nearly_right_is_told_what_is_wrong(text, number, reason):
    with pytest.raises(ValueError) as caught:
        parse_sizes(text)
    assert f"line {number} " in str(caught.value) and reason in str(caught.value)


@pytest.mark.parametrize(
    "text", ["he\u0131ghts=[1] w\u0131dths=[1]", "HEIGHT\u017f=[1] WIDTH\u017f=[1]"]
)
def test_letters_that_only_pass_for_others_make_no_list(text):
    with pytest.raises(ValueError, match="cannot read line 1"):
        parse_sizes(text)


def test_a_very_long_line_is_shortened_in_the_message():
    with pytest.raises(ValueError) as caught:
        parse_sizes("x" * 100_000)
    assert len(str(caught.value)) < 300


def test_a_million_blanks_are_one_blank():
    with pytest.raises(ValueError, match="cannot read line 1"):
        parse_sizes("1 1" + " " * 1_000_000 + "!")
    assert parse_sizes("1" + " " * 1_000_000 + "1") == [Size(1, 1)]


@pytest.mark.parametrize("text", [
    "\n".join(["8x8"] * 10_001),
    f"heights={[8] * 101} widths={[8] * 100}",
    f"heights={[8] * 100_000}\nwidths={[8] * 100_000}",
], ids=["lines", "lists", "lists that multiply to ten billion"])
def test_more_sizes_than_the_limit_are_one_sentence_and_no_memory(text):
    with pytest.raises(ValueError, match=r"at most 10,000 are sorted at once\.$"):
        parse_sizes(text)


def test_as_many_sizes_as_the_limit_are_read():
    assert len(parse_sizes(f"heights={[8] * 100} widths={[8] * 100}")) == 10_000


# ---------------------------------------------------------------- any text at all

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
