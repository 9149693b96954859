"""Fixtures of the tests of prompts' events."""

import logging

import pytest
from support.fake_execution import Execution, prompt_events


class Listener:
    """The events, in order."""

    def __init__(self):
        self.told = []
        self.fails = False

    def prompt_resets(self):
        self.told.append("resets")

    def prompt_begins(self, prompt_id, graph, running):
        self.told.append(("begins", prompt_id, *running))
        if self.fails:
            raise ValueError("of ours")

    def prompt_leaves(self):
        self.told.append("leaves")

    def node_starts(self, node_id, _state, prompt_id):
        self.told.append(("starts", node_id, prompt_id))

    def node_finishes(self, node_id, _state, prompt_id):
        self.told.append(("finishes", node_id, prompt_id))

    def node_progresses(self, node_id, value, *_):
        self.told.append(("progresses", node_id, value))

    def since(self):
        told, self.told = self.told, []
        return told


@pytest.fixture(params=[False, True], ids=["0.3.75", "0.33.0"])
def execution(request):
    return Execution(awaits_cache=request.param)


@pytest.fixture
def listener():
    return Listener()


@pytest.fixture
def running():
    """The prompts that ComfyUI's queue says run."""
    return set()


class Heard(list):
    """What is heard in the log; `error` is what is done with an error."""

    def __init__(self):
        self.error = self.append


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def events(execution, listener, running, heard, monkeypatch):
    """The events, which are listened to from here on."""
    root = logging.getLogger()
    before = list(root.handlers)
    module = prompt_events(execution, monkeypatch)

    found = module.PromptEvents(listener, running.__contains__, lambda error: heard.error(error),
                                lambda: heard.append("over"))
    found.listen()
    yield found
    for handler in set(root.handlers) - set(before):
        root.removeHandler(handler)
