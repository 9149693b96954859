"""An action over HTTP and a prompt never work on the models at the same time."""

import threading

import pytest

from headroom.api.gate import Busy, Gate


def test_an_action_is_refused_while_a_prompt_waits_or_runs():
    gate = Gate(lambda: True)
    with pytest.raises(Busy, match="prompt is running or queued"), gate.action(lambda: True):
        pytest.fail("the action was done")
    assert not gate.acting


def test_an_action_is_refused_while_the_executor_is_busy_between_prompts():
    gate = Gate(lambda: False)
    with pytest.raises(Busy), gate.action(lambda: False):
        pytest.fail("the action was done")
    assert not gate.acting


def test_a_prompt_that_comes_meanwhile_waits_until_the_action_is_done():
    gate = Gate(lambda: False)
    order = []
    started = threading.Event()

    def prompt():
        started.set()
        gate.wait_for_action()
        order.append("prompt")

    with gate.action(lambda: True):
        thread = threading.Thread(target=prompt)
        thread.start()
        started.wait(30)
        thread.join(0.05)
        assert thread.is_alive()
        order.append("action")
    thread.join(30)
    assert order == ["action", "prompt"]


def test_a_prompt_that_comes_between_the_mark_and_the_look_is_seen():
    marks = []
    gate = Gate(lambda: marks.append(gate.acting) or True)
    with pytest.raises(Busy), gate.action(lambda: True):
        pytest.fail("the action was done")
    assert marks == [True]


def test_prompts_go_on_after_an_action_that_failed():
    gate = Gate(lambda: False)
    with pytest.raises(OSError), gate.action(lambda: True):
        raise OSError("disk full")
    gate.wait_for_action()
    assert not gate.acting


def test_two_actions_follow_each_other():
    gate = Gate(lambda: False)
    inside = []
    most = []

    def act():
        with gate.action(lambda: True):
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=act) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == [1] * 8
