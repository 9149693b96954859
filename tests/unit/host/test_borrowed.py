"""A model that another thread looked at beside a prompt dies in the thread of the prompt."""

import sys
import threading
import weakref
from types import SimpleNamespace

import pytest
from support.hosts import Host, Patcher

from headroom.host.borrowed import Borrowed
from headroom.measure.snapshot import Snapshot
from headroom.models import foreign, loaded, ram_held


class Looked:
    """A thread that holds a patcher until `end` is called."""

    def __init__(self, borrowed, patcher):
        self._go, self._has = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._look, args=(borrowed, [patcher]))
        self._thread.start()
        assert self._has.wait(60)

    def _look(self, borrowed, held):
        self._has.set()
        assert self._go.wait(60)
        borrowed.done_with(held)
        held.clear()

    def end(self):
        self._go.set()
        self._thread.join()


@pytest.fixture
def died():
    return []


def mortal(died):
    patcher = Patcher()
    weakref.finalize(patcher, lambda: died.append(threading.get_ident()))
    return patcher


def looked_at(borrowed, died):
    """A patcher that this thread forgot while another one looked at it, which then ended."""
    patcher = mortal(died)
    other = Looked(borrowed, patcher)
    del patcher
    other.end()


@pytest.mark.parametrize("then", ["drop_all", "prompt_leaves", "prompt_begins"])
def test_a_model_that_another_thread_looked_at_is_deleted_in_the_prompts_thread(died, then):
    borrowed = Borrowed()
    borrowed.prompt_begins()
    looked_at(borrowed, died)
    assert died == []
    getattr(borrowed, then)()
    assert died == [threading.get_ident()]


def test_while_no_prompt_runs_nothing_is_kept(died):
    borrowed = Borrowed()
    looked_at(borrowed, died)
    assert len(died) == 1
    borrowed.prompt_begins()
    borrowed.prompt_leaves()
    looked_at(borrowed, died)
    assert len(died) == 2


def test_the_thread_of_the_prompt_keeps_nothing(died):
    borrowed = Borrowed()
    borrowed.prompt_begins()
    patcher = mortal(died)
    borrowed.done_with([patcher])
    del patcher
    assert died == [threading.get_ident()]


@pytest.mark.parametrize("runs", [False, True])
def test_a_thread_that_has_finished_with_models_holds_them_no_longer(died, runs):
    borrowed = Borrowed()
    if runs:
        borrowed.prompt_begins()
    held = [mortal(died)]
    Looked(borrowed, held[0]).end()
    thread = threading.Thread(target=borrowed.done_with, args=(held,))
    thread.start()
    thread.join()
    assert held == [] and len(died) == (0 if runs else 1)


def test_a_list_of_the_models_holds_none_of_them(died, monkeypatch):
    patcher = mortal(died)
    borrowed, host = Borrowed(), Host(patcher)
    host.patchers.clear()  # ComfyUI holds no other
    monkeypatch.setattr(loaded, "current_host", lambda: host)
    monkeypatch.setattr(loaded, "borrowed", borrowed)
    borrowed.prompt_begins()
    found = []
    thread = threading.Thread(target=lambda: found.extend(loaded.loaded_models()))
    thread.start()
    thread.join()
    [model] = found
    assert loaded.patchers_named([model.model.id]) == [patcher]
    host.entries[0].model = None
    del patcher
    assert died == []
    borrowed.drop_all()
    assert died == [threading.get_ident()]


@pytest.mark.parametrize("search", [foreign.foreign_models, ram_held.ram_held])
def test_a_search_holds_no_model_that_comfyuis_cache_drops_meanwhile(died, monkeypatch, search):
    """The next prompt begins beside the search, which has what ComfyUI's cache had before."""
    cache = [(None, None, [mortal(died)])]
    has_looked, has_begun = threading.Event(), threading.Event()

    def results():
        found = list(cache)
        has_looked.set()
        assert has_begun.wait(60)
        return found

    packs = SimpleNamespace(pack_modules=dict, cached_results=results,
                            node_objects=lambda: [value for *_, value in results()])
    host = SimpleNamespace(loaded_entries=list, source_files=lambda _: [],
                           living_patchers=lambda: [one for *_, [one] in cache])
    borrowed = Borrowed()
    monkeypatch.setitem(sys.modules, "headroom.host.packs", packs)
    for module in (foreign, ram_held):
        monkeypatch.setattr(module, "current_host", lambda: host)
        monkeypatch.setattr(module, "borrowed", borrowed)
    monkeypatch.setattr(foreign, "_beside_models", lambda *_: 1 << 30)
    thread = threading.Thread(target=search, args=(Snapshot((), 0, 0),))
    thread.start()
    assert has_looked.wait(60)
    borrowed.prompt_begins()
    cache.clear()
    has_begun.set()
    thread.join()
    assert died == []
    borrowed.drop_all()
    assert died == [threading.get_ident()]
