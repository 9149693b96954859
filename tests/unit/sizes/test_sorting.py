"""Size Sorter's sorting: the order, the fit, and what the report says about them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import steady

from headroom.sizes.sorting import Size, sort_sizes

PUBLISHED = [Size(1024, 1024), Size(1024, 1152), Size(1360, 1536)]


def placed(found):
    return [(str(entry.size), entry.index) for entry in found.placed]


def test_the_largest_area_comes_first_and_index_is_the_original_place():
    found = sort_sizes(PUBLISHED)
    assert placed(found) == [("1360x1536", 2), ("1024x1152", 1), ("1024x1024", 0)]


def test_equal_areas_are_sorted_by_the_longer_side():
    sizes = [Size(512, 512), Size(1024, 256), Size(256, 1024), Size(2048, 128)]
    assert placed(sort_sizes(sizes)) == [
        ("2048x128", 3), ("1024x256", 1), ("256x1024", 2), ("512x512", 0),
    ]


few = st.sampled_from([64, 128, 256])  # so that many are equal


@steady
@given(st.lists(st.builds(Size, few, few)), st.sampled_from(["largest first", "smallest first"]))
def test_equal_sizes_keep_their_order_and_nothing_is_lost(sizes, order):
    found = sort_sizes(sizes, order)
    assert sorted(entry.index for entry in found.placed) == list(range(len(sizes)))
    assert all(sizes[entry.index] == entry.size for entry in found.placed)
    for size in set(sizes):
        mine = [place for place, entry in enumerate(found.placed) if entry.size == size]
        assert mine == list(range(mine[0], mine[0] + len(mine)))
        origins = [found.placed[place].index for place in mine]
        assert origins == sorted(origins)
    areas = [entry.size.area for entry in found.placed]
    assert areas == sorted(areas, reverse=order == "largest first")


def test_pad_up_to_largest_leaves_one_shape_that_holds_every_size():
    found = sort_sizes([Size(1536, 1024), Size(1024, 1536), Size(64, 64)], fit="pad up to largest")
    assert {entry.size for entry in found.placed} == {Size(1536, 1536)}
    assert [entry.index for entry in found.placed] == [0, 1, 2]
    assert (found.shapes_before, found.shapes_after) == (3, 1)


def test_round_up_to_bucket_never_shrinks_and_leaves_multiples_alone():
    found = sort_sizes([Size(1, 64), Size(65, 128), Size(63, 63)], fit="round up to bucket")
    assert placed(found) == [("128x128", 1), ("64x64", 0), ("64x64", 2)]
    assert (found.shapes_before, found.shapes_after) == (3, 2)


def test_added_pixels_are_counted_in_percent_of_what_was_asked():
    found = sort_sizes([Size(100, 100), Size(200, 100)], fit="pad up to largest")
    assert found.added_percent == pytest.approx(100 * 10_000 / 30_000)
    assert "33.3 % pixels added" in found.text


def test_the_report_lists_distinct_shapes_before_and_after_in_running_order():
    text = sort_sizes([Size(60, 60), Size(64, 64), Size(500, 64)], fit="round up to bucket").text
    headline, *shapes = text.splitlines()
    assert "3 distinct shapes before, 2 after" in headline
    assert "round up to bucket (64 px)" in headline
    assert shapes == ["- 512x64: once", "- 64x64: 2 times"]


def test_keeping_each_size_adds_nothing():
    assert "0.0 % pixels added" in sort_sizes(PUBLISHED).text


def test_no_sizes_are_a_plan_without_work():
    for fit in ("keep each size", "pad up to largest", "round up to bucket"):
        found = sort_sizes([], fit=fit)
        assert found.placed == () and found.added_percent == 0.0
        assert found.text == "0 sizes: there is nothing to sort"


def test_65536_px_are_sorted_and_rounded_exactly():
    found = sort_sizes([Size(65535, 65535), Size(65536, 65536)], fit="round up to bucket")
    assert placed(found) == [("65536x65536", 0), ("65536x65536", 1)]
    assert Size(65536, 65536).area == 4_294_967_296


def test_ten_thousand_sizes_give_a_report_one_can_read():
    found = sort_sizes([Size(64 + n, 64) for n in range(10_000)])
    assert found.placed[0].index == 9_999
    assert len(found.text.splitlines()) == 22
    assert found.text.endswith("- and 9980 further shapes")


def test_unknown_settings_are_refused_in_words():
    with pytest.raises(ValueError, match="expects order = .*'random'"):
        sort_sizes(PUBLISHED, "random")
    with pytest.raises(ValueError, match="expects fit = .*'crop'"):
        sort_sizes(PUBLISHED, fit="crop")
    with pytest.raises(ValueError, match="at least 1, but got 0"):
        sort_sizes(PUBLISHED, fit="round up to bucket", bucket=0)
