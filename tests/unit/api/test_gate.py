"""An action over HTTP and a prompt never work on the models at the same time."""

import asyncio
import threading

import pytest

from headroom.api import gate as gates
from headroom.api.gate import Gate
from headroom.base.said import Refused


def never():
    pytest.fail("the action was done")


def idle_gate():
    return Gate(lambda: False, lambda: True)


def is_acting(gate):
    return not gate._free.is_set()


@pytest.mark.parametrize(("waits", "is_idle"), [(True, True), (False, False)])
def test_an_action_is_refused_while_a_prompt_waits_or_runs(waits, is_idle):
    """Between two prompts the queue is empty, and the executor still busy."""
    gate = Gate(lambda: waits, lambda: is_idle)
    with pytest.raises(Refused, match="prompt is running or queued"):
        asyncio.run(gate.act(never))
    assert not is_acting(gate)


def test_an_action_returns_its_result_and_raises_its_own_errors():
    def fails():
        raise OSError("disk full")

    gate = idle_gate()
    assert asyncio.run(gate.act(lambda: (is_acting(gate), threading.current_thread().name)))[0]
    with pytest.raises(OSError, match="disk full"):
        asyncio.run(gate.act(fails))
    gate.wait_for_action()
    assert not is_acting(gate)


def test_a_prompt_waits_for_an_action_however_long_and_the_log_says_so(monkeypatch, caplog):
    monkeypatch.setattr(gates, "PATIENCE_SECONDS", 0.01)
    gate = idle_gate()
    order = []

    def prompt():
        gate.wait_for_action()
        order.append("prompt")

    def action():
        thread.start()
        thread.join(0.2)
        order.append("action")

    thread = threading.Thread(target=prompt)
    asyncio.run(gate.act(action))
    thread.join(30)
    assert order == ["action", "prompt"]
    assert "a prompt has been waiting" in caplog.text


def test_a_prompt_that_comes_after_the_first_look_at_the_queue_is_seen():
    marks = []

    def waiting():
        marks.append(is_acting(gate))
        return len(marks) > 1

    gate = Gate(waiting, lambda: True)
    with pytest.raises(Refused):
        asyncio.run(gate.act(never))
    assert marks == [False, True]


def test_two_actions_never_run_at_the_same_time():
    gate = idle_gate()
    meeting = threading.Barrier(2)

    def act():
        try:
            meeting.wait(0.1)
        except threading.BrokenBarrierError:
            meeting.reset()
            return "alone"
        return "met"

    async def both():
        return await asyncio.gather(gate.act(act), gate.act(act))

    assert asyncio.run(both()) == ["alone", "alone"]


def test_waiting_actions_take_no_thread_and_run_in_their_order():
    gate = idle_gate()
    done = []

    async def all_of_them():
        hold = threading.Event()
        first = asyncio.ensure_future(gate.act(lambda: hold.wait(30)))
        threads = threading.active_count()
        others = [asyncio.ensure_future(gate.act(lambda n=n: done.append(n))) for n in range(8)]
        while not is_acting(gate):
            await asyncio.sleep(0)
        assert threading.active_count() <= threads + 1 and not done
        hold.set()
        await asyncio.gather(first, *others)

    asyncio.run(all_of_them())
    assert done == list(range(8))


def test_an_action_whose_client_went_away_still_keeps_prompts_back_to_its_end():
    gate = idle_gate()
    seen = []

    async def leave():
        hold, inside = threading.Event(), threading.Event()

        def action():
            inside.set()
            hold.wait(30)
            seen.append(is_acting(gate))

        client = asyncio.ensure_future(gate.act(action))
        while not inside.is_set():
            await asyncio.sleep(0)
        client.cancel()
        await asyncio.wait([client])
        assert client.cancelled() and is_acting(gate)
        hold.set()
        await gate.act(lambda: seen.append("next"))

    asyncio.run(leave())
    assert seen == [True, "next"]


def test_code_that_runs_between_actions_runs_beside_none_of_them():
    gate = idle_gate()
    order = []

    async def free():
        async with gate.turn:
            order.append("free begins")
            await asyncio.sleep(0.02)
            order.append("free ends")

    async def all_of_them():
        before = asyncio.ensure_future(gate.act(lambda: order.append("before")))
        await asyncio.sleep(0)
        freeing = asyncio.ensure_future(free())
        await asyncio.sleep(0)
        after = asyncio.ensure_future(gate.act(lambda: order.append("after")))
        await asyncio.gather(before, freeing, after)

    asyncio.run(all_of_them())
    assert order == ["before", "free begins", "free ends", "after"]
