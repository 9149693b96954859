"""Reading figures of a device never starts it: an unused CUDA stays unused."""

from types import SimpleNamespace

import pytest
import torch
from support.cuda_scripts import NEEDS_FAKE_CUDA, ROOT, script_runner
from support.systems import MIB, Nvml

from headroom import snapshot
from headroom.base import device as devices
from headroom.guard.replay import RandomState
from headroom.measure import nvml
from headroom.measure.report import Report


@pytest.fixture
def started(monkeypatch):
    """Two CUDA devices that nobody has used; the list says what has started CUDA."""
    told = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: told.append("started"))
    for name in ("current_device", "get_device_properties", "get_device_name", "mem_get_info",
                 "empty_cache", "ipc_collect", "get_rng_state"):
        monkeypatch.setattr(torch.cuda, name, lambda *_, name=name: told.append(name))
    return told


@pytest.fixture
def cards(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)

    def put(*found):
        monkeypatch.setattr(nvml, "_nvml", lambda: Nvml(cards=found) if found else None)

    put()
    return put


@pytest.mark.usefixtures("cards")
def test_no_question_starts_cuda(started):
    before = snapshot()
    text = Report("nothing was done", (), before, snapshot()).text
    devices.empty_cache()
    RandomState()
    assert started == []
    assert [device.device for device in before.devices] == ["cuda:0", "cuda:1"]
    assert "cuda:1, not in use by this process" in text


@pytest.mark.usefixtures("started", "cards")
def test_a_device_that_is_not_in_use_holds_nothing_of_this_process():
    for device in snapshot().devices:
        assert (device.allocated_bytes, device.reserved_bytes) == (0, 0)
        assert device.driver_free_bytes is None and not device.in_use


@pytest.fixture
def without_context(started, monkeypatch):
    """The same devices after CUDA was started, without a context on either."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch._C, "_cuda_hasPrimaryContext", lambda _: False, raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_properties",
                        lambda device: SimpleNamespace(uuid=device.index))


@pytest.mark.usefixtures("started")
def test_before_cuda_is_started_nvml_is_not_asked_because_the_card_is_not_known(cards):
    cards(("A card", 8000, 100), ("A card", 8000, 7000))
    assert [device.driver_free_bytes for device in snapshot().devices] == [None, None]


@pytest.mark.usefixtures("without_context")
def test_nvml_tells_what_others_hold_on_a_device_that_is_not_in_use(cards):
    cards(("A card", 8000, 100), ("A card", 8000, 7000))
    first, second = snapshot().devices
    assert (first.used_bytes, second.used_bytes) == (100 * MIB, 7000 * MIB)
    assert second.name == "A card" and second.total_bytes == 8000 * MIB


@NEEDS_FAKE_CUDA[0]
@NEEDS_FAKE_CUDA[1]
def test_no_question_makes_a_context_on_a_real_cuda_build(tmp_path):
    found = script_runner(tmp_path)(f"""
sys.path.insert(0, {str(ROOT)!r})
import headroom
from headroom.base import device as devices
from headroom.guard.replay import RandomState
from headroom.record.probe import Probe
def ask():
    text = headroom.purge().text
    RandomState()
    probe = Probe()
    probe.begin_run()
    probe.measured()
    devices.empty_cache()
    return text
def contexts():
    return [Ledger(Path(sys.argv[1])).device(index).context_used_bytes for index in range(2)]
untouched, started = ask(), torch.cuda.is_initialized()
kept, before = take(4, 1), contexts()
show(untouched=untouched, started=started, before=before, one_in_use=ask(), after=contexts())
""", devices=2, context_mib=300, other_mib="0,700")
    assert found["started"] is False
    assert found["untouched"].count("not in use by this process") == 2
    assert found["untouched"].count("driver free         not known here") == 2
    assert found["after"] == found["before"] == [0, 300 * MIB]
    assert found["one_in_use"].count("not in use by this process") == 1
