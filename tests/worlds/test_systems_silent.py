"""A driver that cannot tell is "not known": on every backend, for every query, in nodes and routes.

Intel's driver raises for many cards when it is asked what is free (ComfyUI issues 9024, 15487).
"""

import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.measured import actions, answers, check_everything
from support.systems import KINDS, MIB, QUERIES, Card

from headroom import snapshot
from headroom.base import device as devices

EACH = [(kind, {query}) for kind in KINDS for query in QUERIES[kind]]
ALL = [(kind, set(QUERIES[kind])) for kind in KINDS]
TESTS = Path(__file__).resolve().parents[1]
PLUGIN = f"""
import gc, sys
sys.path[:0] = [{str(TESTS)!r}, {str(TESTS.parent)!r}]
import pytest, torch
torch.utils.rename_privateuse1_backend(sys.argv[1])
from support.measured import check_everything
from support.systems import QUERIES, Card
gc.collect = lambda *_: 0
for query in QUERIES[sys.argv[1]]:
    with pytest.MonkeyPatch.context() as patch:
        card = Card(patch, sys.argv[1])
        card.silent = {{query}}
        check_everything(card.device)
"""


@pytest.fixture(autouse=True)
def no_collections(monkeypatch):
    """A tenth of a second each, and there are hundreds; nothing here is about garbage."""
    monkeypatch.setattr(gc, "collect", lambda *_: 0)


def named(case):
    kind, silent = case
    return f"{kind}-{'all' if silent == set(QUERIES[kind]) else next(iter(silent))}"


@pytest.mark.parametrize("case", [*EACH, *ALL], ids=named)
def test_every_node_and_every_route_works_and_claims_nothing(monkeypatch, caplog, case):
    kind, silent = case
    card = Card(monkeypatch, kind)
    card.silent = silent
    check_everything(card.device)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_the_same_holds_on_accelerators_that_torch_knows_by_a_plugin():
    """As "npu" or "mlu": torch makes the same of every such name."""
    done = subprocess.run([sys.executable, "-c", PLUGIN, "npu"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_figures_that_an_intel_card_cannot_tell_are_null_in_data_and_not_known_in_text(monkeypatch):
    card = Card(monkeypatch, "xpu")
    card.silent = {"mem_get_info"}
    (told,) = json.loads(answers(card.device, None)["GET", "/headroom/memory", "None"][1])[
        "devices"]
    unknown = {name for name, value in told.items() if value is None}
    assert unknown == {"total_mib", "free_mib", "left_mib", "limit_mib", "other_processes_mib",
                       "dynamic_mib"}
    assert told["used_mib"] == told["reserved_mib"] == 1500
    text = dict(actions(card.device))["Purge VRAM"]()
    assert "driver free         not known here" in text and "torch reserved" in text
    guard = dict(actions(card.device))["OOM Guard"]()
    assert "the free memory of xpu:0 is not known" in guard


def test_a_device_of_which_nothing_is_known_is_not_said_to_be_empty(monkeypatch):
    card = Card(monkeypatch, "directml")
    (told,) = json.loads(answers(card.device, None)["GET", "/headroom/memory", "None"][1])[
        "devices"]
    assert {told[name] for name in ("used_mib", "free_mib", "allocated_mib", "reserved_mib",
                                    "other_torch_mib")} == {None}
    text = dict(actions(card.device))["Purge VRAM"]()
    assert text.startswith("how much VRAM was freed is not known")
    assert "allocator cache: returned to the driver; how much is not known" in text


def test_nothing_can_be_promised_on_a_device_that_does_not_tell_its_free_memory(monkeypatch):
    card = Card(monkeypatch, "xpu")
    card.silent = {"mem_get_info"}
    told = answers(card.device, None)
    assert told["GET", "/headroom/ready", "None"][0] == 200
    status, text = told["GET", "/headroom/ready?free_mib=6000", "None"]
    assert (status, json.loads(text)["reason"]) == (503, (
        "how much is free on xpu:0 is not known, but 6,000.0 MiB are wanted on xpu:0."))
    status, text = told["POST", "/headroom/purge", "{'free_mib': 10}"]
    assert status == 400 and "leave `free_mib` out" in json.loads(text)["error"]


def test_figures_of_a_driver_that_tells_are_its_own(monkeypatch):
    for kind in ("cuda", "rocm", "xpu", "mps", "privateuseone"):
        card = Card(monkeypatch, kind, reserved=5000)
        (found,) = snapshot().devices
        assert (found.allocated_bytes, found.reserved_bytes) == (1000 * MIB, 5000 * MIB), kind
        assert found.driver_free_bytes == 3000 * MIB and found.total_bytes == 8000 * MIB, kind
        assert found.name == ("mps" if kind == "mps" else "A card") and card.device.type != "cpu"


def test_other_errors_of_a_query_are_not_taken_for_silence(monkeypatch):
    def wrong(device):
        raise TypeError("a mistake of ours")

    Card(monkeypatch, "xpu")
    monkeypatch.setattr(torch.xpu, "mem_get_info", wrong)
    with pytest.raises(TypeError, match="a mistake of ours"):
        devices.driver_memory(torch.device("xpu", 0))
