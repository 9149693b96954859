"""Fixtures of the tests of the tools."""

import pytest
from support.comfyui import stand_in
from support.dry_pack import dry_part


@pytest.fixture
def dry(monkeypatch):
    """A function that does a part of a dry run to a module of ComfyUI with these contents.

    It does so twice, as before every prompt.
    """
    def do(name, path, *args, part="run", **contents):
        module = stand_in(monkeypatch, path, **contents)
        work = getattr(dry_part(part), name)
        work(*args)
        work(*args)
        return module

    return do
