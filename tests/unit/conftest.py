"""Fixtures that several unit tests share."""

import pytest
import torch
from support.blocks import Block
from support.recorder import Probe

from headroom.base import environment
from headroom.measure import journal


@pytest.fixture(autouse=True)
def told_nothing_yet(monkeypatch):
    """Messages that are logged once per process are logged once per test."""
    monkeypatch.setattr(environment, "_told", set())


@pytest.fixture(autouse=True)
def listeners_of_one_test(monkeypatch):
    """Who listens to the journal in one test hears nothing of the next."""
    monkeypatch.setattr(journal, "_listeners", [])


@pytest.fixture
def outcomes():
    """How prompts ended, by their ids, as ComfyUI would tell the recorder."""
    return {}


@pytest.fixture
def probe():
    """Memory that the recorder reads."""
    return Probe()


@pytest.fixture
def module():
    """A model to cast."""
    torch.manual_seed(3)
    return Block().eval().requires_grad_(False)


@pytest.fixture
def x():
    """The module's input: (1, 5, 64)."""
    return torch.randn(1, 5, 64, generator=torch.Generator().manual_seed(4))
