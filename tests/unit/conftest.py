"""Fixtures that several unit tests share."""

import pytest
from support.recorder import Probe

from headroom.base import private_file


@pytest.fixture
def shares_blocks(monkeypatch):
    """A copy stands for the blocks that a file system would share."""

    def copied(path, file):
        file.write(path.read_bytes())
        file.seek(0)
        return True

    monkeypatch.setattr(private_file, "_share_blocks", copied)


@pytest.fixture
def outcomes():
    """How prompts ended, by their ids, as ComfyUI would tell the recorder."""
    return {}


@pytest.fixture
def probe():
    """Memory that the recorder reads."""
    return Probe()
