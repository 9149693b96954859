"""Prompts, their nodes, errors and ends are told, whatever the executor and other packs do."""

import asyncio
import gc
import logging
import threading

import pytest
from support.fake_execution import DynamicPrompt, ProgressHandler

from headroom.host.borrowed import borrowed

pytestmark = pytest.mark.usefixtures("events")


def whole(prompt_id, *nodes):
    """The events of a prompt whose nodes run one after the other."""
    within = [(word, node, prompt_id) for node in nodes for word in ("starts", "finishes")]
    return ["resets", ("begins", prompt_id), *within, "leaves"]


def nothing():
    return None


def test_every_prompt_is_told_from_its_first_node_to_its_end(execution, listener):
    for prompt_id in ("p", "q", "r"):
        execution.run(prompt_id, nothing, nothing)
        assert listener.since() == whole(prompt_id, "1", "2")


def test_a_garbage_collection_does_not_take_the_end_away(execution, listener, caplog):
    async def collects():
        for _ in range(3):
            await asyncio.sleep(0)
            gc.collect()

    with caplog.at_level(logging.ERROR):
        execution.run("p", collects)
        gc.collect()
    assert listener.since() == whole("p", "1") and "destroyed" not in caplog.text


def test_an_error_in_the_loop_is_an_end_too(execution, listener):
    def fails():
        raise ValueError("a node failed")

    with pytest.raises(ValueError, match="a node failed"):
        execution.run("p", fails)
    assert listener.since() == ["resets", ("begins", "p"), ("starts", "1", "p"), "leaves"]


def test_a_loop_that_goes_on_tells_only_of_the_prompt_that_was_begun_last(execution, listener):
    async def two_prompts_in_one_loop():
        for prompt_id in ("p", "q"):
            await execution.execute(prompt_id, nothing)
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 2

    asyncio.run(two_prompts_in_one_loop())
    assert listener.since() == whole("p", "1")[:-1] + whole("q", "1")


def test_a_prompt_without_a_loop_begins_and_nobody_tells_its_end(execution, listener):
    execution.begin("p")
    assert "leaves" not in listener.since()


def test_an_error_of_ours_ends_no_prompt(execution, listener, caplog):
    listener.fails = True
    execution.run("p", nothing)
    assert listener.since() == whole("p", "1") and "of ours" in caplog.text


# ------------------------------------------------------------ other packs


def handler(name, **methods):
    found = ProgressHandler(name)
    vars(found).update(methods)
    return found


@pytest.fixture
def kept(execution, listener):
    """A list in which another pack keeps the registries that it finds as the next prompt begins."""
    found = []
    holder = handler("holder", reset=lambda: found.append(execution.registry))
    execution.run("p", lambda: execution.registry.register_handler(holder))
    listener.since()
    return found


@pytest.mark.usefixtures("kept")
def test_a_registry_that_is_found_late_has_the_nodes_from_there_on(execution, listener):
    execution.run("q", lambda: asyncio.sleep(0), nothing)
    told = listener.since()
    assert told[0] == "resets" and told[-3:] == whole("q", "2")[2:]
    execution.run("r", nothing)
    assert listener.since() == whole("r", "1")


def test_nothing_is_added_while_handlers_are_told_of_a_node(execution, listener, kept):
    drops = handler("drops", start_handler=lambda *_: kept.clear())
    execution.asks_first = lambda: execution.registry.register_handler(drops)
    execution.run("q", nothing)
    assert listener.since()[-1] == "leaves"


def test_handlers_that_somebody_resets_while_no_prompt_runs_cost_no_prompt(execution, listener):
    execution.registry.reset_handlers()
    listener.since()
    execution.run("p", nothing)
    assert listener.since() == whole("p", "1")


def test_where_an_executor_of_another_pack_gives_no_turn_only_the_first_prompt_is_found_late(
    execution, listener
):
    execution.awaits_cache = False
    execution.run("p", nothing)
    listener.since()
    execution.run("q", nothing)
    assert listener.since() == whole("q", "1")


def test_an_executor_within_a_prompt_is_no_prompt_and_ends_none(execution, listener, running):
    running.add("p")
    execution.run("p", lambda: execution.reset_progress_state("elsewhere", DynamicPrompt({})))
    assert listener.since() == ["resets", ("begins", "p"), ("starts", "1", "p"), "leaves"]
    running.clear()
    execution.run("q", nothing)
    assert listener.since() == whole("q", "1")


def lose(execution):
    execution.registry = None


def test_a_registry_that_is_lost_amid_a_prompt_costs_no_later_one(execution, listener):
    execution.run("p", lambda: lose(execution))
    assert listener.since() == ["resets", ("begins", "p"), ("starts", "1", "p"), "leaves"]
    execution.run("q", nothing)
    assert listener.since() == whole("q", "1")


def test_a_registry_that_is_lost_between_prompts_is_found_when_the_next_is_posted(
    execution, listener, events
):
    execution.run("p", nothing)
    listener.since()
    lose(execution)
    events.attach()
    execution.run("q", nothing)
    assert listener.since() == whole("q", "1")


# ------------------------------------------------------------ threads


def test_models_that_other_threads_looked_at_are_deleted_in_the_prompts_thread(execution):
    told = []

    def looked_at_elsewhere():
        things = [object()]
        other = threading.Thread(target=borrowed.done_with, args=(things,))
        other.start()
        other.join()
        told.append(len(borrowed.kept))

    looked_at_elsewhere()
    execution.run("p", looked_at_elsewhere)
    assert told == [0, 1] and not borrowed.kept


# ------------------------------------------------------------ what is heard in the log
