"""The end of an event loop is told, once, whatever the garbage collector does meanwhile."""

import asyncio
import gc
import logging

import pytest

from headroom.host.loop_end import LoopEnd


@pytest.fixture
def told():
    return []


@pytest.fixture
def end(told):
    return LoopEnd(lambda: told.append("ended"))


async def collects(end, told):
    end.watch()
    for _ in range(3):
        await asyncio.sleep(0)
        gc.collect()
    assert told == []


def test_a_garbage_collection_does_not_take_the_end_away(end, told, caplog):
    with caplog.at_level(logging.ERROR):
        asyncio.run(collects(end, told))
        gc.collect()
    assert told == ["ended"] and "destroyed" not in caplog.text


def test_every_loop_that_is_watched_tells_its_own_end(end, told):
    for turn in range(3):
        asyncio.run(collects(end, []))
        assert told == ["ended"] * (turn + 1)


def test_an_error_in_the_loop_is_an_end_too(end, told):
    async def fails():
        end.watch()
        raise ValueError("a node failed")

    with pytest.raises(ValueError, match="a node failed"):
        asyncio.run(fails())
    assert told == ["ended"]


def test_a_loop_that_goes_on_tells_only_of_what_was_watched_last(end, told):
    async def two_prompts_in_one_loop():
        end.watch()
        await asyncio.sleep(0)
        end.watch()
        for _ in range(3):
            await asyncio.sleep(0)
        assert told == [] and len(asyncio.all_tasks()) == 2

    asyncio.run(two_prompts_in_one_loop())
    assert told == ["ended"]


def test_without_a_loop_there_is_nothing_to_watch(end, told):
    assert end.watch() is False and told == []
