"""Purge without ComfyUI: its report is what it measured, and it refuses senseless input."""

import sys

import pytest
import torch

from headroom import purge, snapshot
from headroom.base import device as devices
from headroom.base.device import MIB
from headroom.measure.journal import Action, listen
from headroom.measure.report import Report
from headroom.measure.snapshot import DeviceMemory, Snapshot, freed_mib

purge_module = sys.modules["headroom.actions.purge"]


def device(**changes):
    figures = dict(device="cuda:0", name="Test card", total_bytes=8000 * MIB,
                   driver_free_bytes=3000 * MIB, allocated_bytes=4000 * MIB,
                   reserved_bytes=4500 * MIB, dynamic_bytes=None)
    return DeviceMemory(**{**figures, **changes})


def at(*devices, rss=1000 * MIB):
    return Snapshot(devices, rss, 0)


def test_a_report_gives_before_after_and_difference_of_every_figure():
    before = at(device())
    after = at(device(driver_free_bytes=5000 * MIB, allocated_bytes=2500 * MIB,
                      reserved_bytes=2500 * MIB), rss=900 * MIB)
    text = Report("headline", ("step",), before, after).text
    assert "cuda:0 (Test card)" in text
    for line in ("driver free            3,000.0 ->    5,000.0 MiB  (+2,000.0)",
                 "torch reserved         4,500.0 ->    2,500.0 MiB  (-2,000.0)",
                 "dynamic-VRAM pages  not known here",
                 "process RSS            1,000.0 ->      900.0 MiB  (-100.0)"):
        assert line in text
    assert freed_mib(before, after) == 2000


def test_without_a_driver_figure_what_this_process_holds_is_counted():
    blind = dict(driver_free_bytes=None, total_bytes=None)
    before = at(device(**blind, dynamic_bytes=100 * MIB))
    after = at(device(**blind, reserved_bytes=500 * MIB, dynamic_bytes=0))
    assert freed_mib(before, after) == 4100


PURGED = dict(driver_free_bytes=5000 * MIB, allocated_bytes=2500 * MIB, reserved_bytes=2500 * MIB)
EMPTY = dict(driver_free_bytes=7500 * MIB, allocated_bytes=0, reserved_bytes=0)


@pytest.mark.parametrize(("before", "after", "headline"), [
    ({}, PURGED, "2,000.0 MiB of VRAM freed"),
    ({}, {**PURGED, "driver_free_bytes": 2700 * MIB},
     "2,000.0 MiB of VRAM freed; other programs took 2,300.0 MiB meanwhile"),
    ({}, {"driver_free_bytes": 2700 * MIB},
     "0.0 MiB of VRAM freed: the 4,500.0 MiB that this process holds are in use; "
     "other programs took 300.0 MiB meanwhile"),
    ({}, {**PURGED, "driver_free_bytes": 5064 * MIB},
     "2,000.0 MiB of VRAM freed; 64.0 MiB more came from other programs, or from outside of "
     "PyTorch"),
    ({}, {"driver_free_bytes": 3000 * MIB - 20_000},
     "0.0 MiB of VRAM freed: the 4,500.0 MiB that this process holds are in use"),
    ({}, {"reserved_bytes": 4500 * MIB - 20_000, "driver_free_bytes": 3000 * MIB + 20_000},
     "less than 0.1 MiB of VRAM freed"),
    ({}, {"reserved_bytes": 4600 * MIB, "driver_free_bytes": 2900 * MIB},
     "0.0 MiB of VRAM freed: the 4,600.0 MiB that this process holds are in use"),
    ({"dynamic_bytes": 100 * MIB, **EMPTY}, {"dynamic_bytes": 100 * MIB, **EMPTY},
     "0.0 MiB of VRAM freed: the 100.0 MiB that this process holds are in use"),
    (EMPTY, EMPTY, "0.0 MiB of VRAM freed: nothing was loaded or cached"),
    ({"reserved_bytes": None}, {"reserved_bytes": None, "driver_free_bytes": 3100 * MIB},
     "100.0 MiB of VRAM freed"),
    ({"reserved_bytes": None}, {"reserved_bytes": None}, "0.0 MiB of VRAM freed"),
    ({"reserved_bytes": None, "driver_free_bytes": None},
     {"reserved_bytes": None, "driver_free_bytes": None},
     "how much VRAM was freed is not known: neither PyTorch nor the driver tells here"),
])
def test_the_headline_tells_what_this_process_gave_back_and_what_others_took(
    monkeypatch, before, after, headline
):
    taken = iter([at(device(**before))])
    monkeypatch.setattr(
        purge_module, "snapshot", lambda: next(taken, at(device(**after))))
    monkeypatch.setattr(purge_module, "return_cache", lambda: None)
    report = purge("no models")
    assert report.headline == headline
    assert report.freed_mib is None or report.freed_mib >= 0


def test_figures_of_freed_memory_are_never_negative_and_may_be_unknown(monkeypatch):
    heard = []
    listen(heard.append)
    grown = Report("headline", (), at(device()), at(device(
        reserved_bytes=4600 * MIB, driver_free_bytes=2900 * MIB), rss=1100 * MIB))
    assert (grown.as_json()["freed_mib"], grown.as_json()["freed_rss_mib"]) == (0, 0)
    blind = device(reserved_bytes=None, driver_free_bytes=None)
    monkeypatch.setattr(purge_module, "snapshot", lambda: at(blind))
    assert purge().as_json()["freed_mib"] is None
    assert [(type(one), one.action, one.freed_mib) for one in heard] == [(Action, "purge", None)]


def test_on_a_cpu_server_the_report_says_that_nothing_was_there_to_free():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    report = purge()
    assert report.freed_mib == 0
    assert "0.0 MiB of VRAM freed: this server runs on the CPU" in report.text
    assert snapshot().devices == ()


def test_a_purge_for_0_mib_does_nothing_and_one_for_no_number_is_refused():
    assert "nothing to do: there is enough room" in purge(free_mib=0).steps
    for wrong in (-1, 1.5, "100", True):
        with pytest.raises(ValueError, match="Purge VRAM expects free_mib = a whole number"):
            purge(free_mib=wrong)


def test_all_but_keep_without_a_model_says_what_to_connect():
    with pytest.raises(ValueError, match="input `keep`, but got nothing: connect a MODEL"):
        purge("all but keep")
    with pytest.raises(ValueError, match="got a dict without a model in it"):
        purge("all but keep", keep={"samples": torch.zeros(1)})


def test_enough_room_leaves_everything_alone_and_says_so(monkeypatch):
    monkeypatch.setattr(purge_module, "_room_bytes", lambda: 500 * MIB)
    assert "nothing to do: 500.0 MiB are free, the limit is 400.0 MiB" in purge(
        only_below_free_mib=400
    ).text
    assert "nothing to do" not in purge(only_below_free_mib=501).text


def test_garbage_is_collected_before_the_cache_is_returned(monkeypatch):
    order = []
    monkeypatch.setattr(purge_module.gc, "collect", lambda: order.append("collect") or 0)
    monkeypatch.setattr(purge_module, "return_cache", lambda: order.append("return cache"))
    purge()
    assert order == ["collect", "return cache"]


def test_a_model_that_was_kept_is_not_said_to_be_nothing(monkeypatch):
    monkeypatch.setattr(purge_module, "others", lambda kept: [])
    text = purge("all but keep", keep=torch.nn.Linear(2, 2)).text
    assert "models: only the kept ones were loaded" in text


def test_every_level_is_named_in_the_report():
    text = purge("no models", free_ram=True, reset_node_cache=True).text
    for words in ("models: none unloaded, as asked", "garbage:", "allocator cache:", "RAM:",
                  "node cache:"):
        assert words in text


def test_the_fullest_device_in_use_decides_whether_there_is_room(monkeypatch):
    roomy = device(driver_free_bytes=7000 * MIB)
    full = device(device="cuda:1", driver_free_bytes=100 * MIB)
    unused = device(device="cuda:2", driver_free_bytes=1 * MIB, in_use=False)
    monkeypatch.setattr(purge_module, "snapshot", lambda: at(roomy, full, unused))
    text = purge("no models", only_below_free_mib=601).text
    assert "nothing to do" not in text
    assert "nothing to do: 600.0 MiB are free, the limit is 600.0 MiB" in purge(
        "no models", only_below_free_mib=600
    ).text


class Workspaces:
    """What torch would keep for cuBLAS on one card."""

    def __init__(self, monkeypatch):
        self.allocated = 9 * MIB
        cuda = torch.device("cuda", 0)
        monkeypatch.setattr(devices, "is_started", lambda kind: True)
        monkeypatch.setattr(devices, "is_in_use", lambda device: True)
        monkeypatch.setattr(devices, "accelerators", lambda: [cuda])
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: self.allocated)
        monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", self.clear, raising=False)

    def clear(self):
        self.allocated = MIB


def test_workspaces_of_cublas_are_cleared_and_counted(monkeypatch):
    Workspaces(monkeypatch)
    assert devices.clear_workspaces() == 8 * MIB


def test_workspaces_stay_while_a_captured_graph_may_use_them(monkeypatch):
    class Graph:
        pass

    kept = Workspaces(monkeypatch)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    alive = Graph()
    assert devices.clear_workspaces() is None and kept.allocated == 9 * MIB
    del alive
    assert devices.clear_workspaces() == 8 * MIB


def test_a_torch_without_the_function_or_without_cuda_clears_nothing(monkeypatch):
    assert devices.clear_workspaces() is None or torch.cuda.is_available()
    Workspaces(monkeypatch)
    monkeypatch.delattr(torch._C, "_cuda_clearCublasWorkspaces")
    assert devices.clear_workspaces() is None
