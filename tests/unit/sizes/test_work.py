"""Sorting a list of work and putting it back, settings arriving as lists included."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.properties import steady

from headroom.sizes.work import restore_order, sort_work, sorted_lists


def pictures(*sizes):
    return [torch.zeros(1, height, width, 3) for width, height in sizes]


def test_items_are_sorted_by_their_own_size_and_stay_the_very_objects():
    items = pictures((8, 8), (32, 32), (16, 16))
    work = sort_work(items=items)
    assert [id(item) for item in work.items] == [id(items[1]), id(items[2]), id(items[0])]


def test_text_can_give_the_sizes_of_items_that_have_none():
    work = sort_work("8x8\n32x32", ["small", "large"])
    assert work.items == ["large", "small"]


def test_without_items_there_is_a_place_for_each():
    assert sort_work("8x8\n32x32").items == [None, None]


def test_a_number_of_sizes_other_than_that_of_the_items_is_refused():
    with pytest.raises(ValueError, match="each of the 1 items, but got 2 sizes"):
        sort_work("8x8\n32x32", pictures((8, 8)))


def test_the_report_says_at_which_scale_latents_were_counted():
    text = sort_work(items=[{"samples": torch.zeros(1, 4, 8, 8)}]).text
    assert "8 px for a latent cell" in text
    assert "64x64" in text


def test_the_report_says_that_fit_does_not_change_the_items():
    items = pictures((8, 8), (32, 32))
    work = sort_work(items=items, fit="pad up to largest")
    assert "items are not changed" in work.text
    assert work.items[0].shape == (1, 8, 8, 3)
    assert "items are not changed" not in sort_work("8x8", fit="pad up to largest").text


@steady
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1),
       st.sampled_from(["largest first", "smallest first"]))
def test_restoring_undoes_sorting(sizes, order):
    items = pictures(*sizes)
    work = sort_work(items=items, order=order)
    back = restore_order(work.items, [entry.index for entry in work.sizes.placed])
    assert [id(item) for item in back] == [id(item) for item in items]


def test_a_list_that_grew_by_a_batch_for_each_item_is_put_back_in_groups():
    grown = ["c1", "c2", "a1", "a2", "b1", "b2"]
    assert restore_order(grown, [2, 0, 1]) == ["a1", "a2", "b1", "b2", "c1", "c2"]


def test_an_index_that_grew_with_the_items_works_too():
    assert restore_order(["c1", "c2", "a1", "a2"], [2, 2, 0, 0]) == ["a1", "a2", "c1", "c2"]


def test_a_part_of_the_work_keeps_its_relative_order():
    assert restore_order(["d", "b"], [3, 1]) == ["b", "d"]


def test_restoring_an_empty_list_gives_an_empty_list():
    assert restore_order([], []) == []


@pytest.mark.parametrize(("items", "index"), [(3, 2), (1, 2), (0, 2), (2, 0)])
def test_lists_that_do_not_add_up_are_refused_with_both_counts(items, index):
    with pytest.raises(ValueError, match=f"got {items} items for {index} indices"):
        restore_order(list(range(items)), list(range(index)))


def lists(sizes, items=None, order="largest first", fit="keep each size", bucket=64):
    return sorted_lists(sizes, items, [order], [fit], [bucket])


def test_settings_that_arrive_as_lists_of_one_are_taken():
    width, height, item, index, report = lists(["8x16\n32x64"])
    assert (width, height, item, index) == ([32, 8], [64, 16], [None, None], [1, 0])
    assert report.startswith("2 sizes, largest first")


def test_a_list_of_texts_counts_as_one_text():
    width, _, _, index, _ = lists(["8x8", "# nothing\n16x16", "32x32"])
    assert (width, index) == ([32, 16, 8], [2, 1, 0])


def test_a_list_of_different_settings_is_refused():
    with pytest.raises(ValueError, match="one value for `order`, but a list of 2"):
        sorted_lists(["8x8"], None, ["largest first", "smallest first"], ["keep each size"], [64])
    assert sorted_lists(["8x8"], None, ["largest first"] * 3, ["keep each size"], [64])[0] == [8]


def test_without_work_the_lists_are_empty_and_the_report_says_so():
    assert lists([""]) == ([], [], [], [], "0 sizes: there is nothing to sort")
    assert lists([""], items=[])[4] == "0 sizes: there is nothing to sort"
