"""The limit of a server: who sets it, how each allocator gets it, and what cannot be limited."""

import logging

import pytest
import torch
from support.hosts import Host

from headroom.actions import ceiling as module
from headroom.actions.ceiling import SETTING, VARIABLE, Limit
from headroom.base import ceiling as base
from headroom.measure.snapshot import DeviceMemory

GIB = 1 << 30
CARD = torch.device("cuda", 0)


@pytest.fixture
def world(monkeypatch):
    """A card of 24 GiB on which we hold 2 GiB and a context of 0.5, and others 1.5 GiB."""
    host = Host()
    host.hidden = 3 * GIB

    def measured(device):
        return DeviceMemory(str(device), "Card", 24 * GIB, 20 * GIB, GIB, 2 * GIB, 0,
                            ceiling=base.ceiling_of(device))

    monkeypatch.setattr(base, "_ceilings", {})
    monkeypatch.setattr(base, "backend", lambda _: torch.cuda)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda share, device: None)
    monkeypatch.setattr(module, "devices_in_use", lambda: [CARD])
    monkeypatch.setattr(module, "measure_device", measured)
    monkeypatch.setattr(module, "is_pool", lambda _: False)
    monkeypatch.setattr(module, "own_bytes", lambda _: int(2.5 * GIB))
    monkeypatch.setattr(module, "current_host", lambda: host)
    monkeypatch.setattr(module, "return_cache", lambda: None)
    return host


def held():
    found = base.ceiling_of(CARD)
    return None if found is None else tuple(amount / GIB for amount in found)


def texts(limit):
    return [one["text"] for one in limit.as_json()["not_limited"]]


def test_http_wins_over_the_environment_which_wins_over_the_browser():
    limit = Limit({VARIABLE: "80%"}, {SETTING: "5"}, "linux")
    assert (str(limit.wish[0]), limit.wish[1]) == ("80%", "environment")
    limit = Limit({}, {}, "linux")
    limit.prompt_is_posted({SETTING: "5"})
    assert (str(limit.wish[0]), limit.wish[1]) == ("5 GiB", "browser")
    limit._sent = "off"
    assert limit.wish == ("off", "HTTP")


def test_a_wrong_word_is_told_once_and_refused_over_http(caplog, world):
    caplog.set_level(logging.WARNING, "headroom")
    limit = Limit({VARIABLE: "much"}, {}, "linux")
    assert limit.wish == (None, "default") and "expected HEADROOM_VRAM_LIMIT to be" in caplog.text
    with pytest.raises(ValueError, match="Expected `limit` to be a size such as 10, .* got x"):
        limit.set("x")
    assert held() is None


def test_the_drivers_context_counts_and_off_takes_the_limit_back(world):
    limit = Limit({}, {}, "linux")
    limit.set("10 GiB")
    assert held() == (10, 9.5, 9.5)
    assert texts(limit) == ["ComfyUI itself loads models by what the driver has free: OOM Guard "
                            "loads within the limit, and --reserve-vram 14.5 lets ComfyUI do so"]
    limit.set("off")
    assert held() is None and texts(limit) == []


def test_models_above_the_limit_are_unloaded_before_the_next_prompt(world):
    limit = Limit({VARIABLE: "1.5"}, {}, "linux")
    limit.before_prompt()
    assert held() == (1.5, 1, 1) and world.freed == [("cuda:0", 4 * GIB)]  # 3 seem free, 1 is above


@pytest.mark.parametrize("pool, words, torchs, kept", [
    (False, "", 9.5 - 1 / 32, 14.5 + 1 / 32), (False, "expandable_segments:True", 4.75, 19.25),
    (True, "expandable_segments:True", 9.5 * 5 / 6, 24 - 9.5 * 5 / 6),
])
def test_pages_and_torch_stay_within_the_limit_together(
    world, monkeypatch, pool, words, torchs, kept
):
    world.dynamic_vram = True
    monkeypatch.setattr(module, "is_pool", lambda _: pool)
    limit = Limit({VARIABLE: "10", "PYTORCH_CUDA_ALLOC_CONF": words}, {}, "linux")
    limit.apply()
    assert held()[2] == pytest.approx(torchs) and world.kept == [pytest.approx(kept * GIB)]
    assert texts(limit) == []


def test_a_part_of_a_limit_that_cannot_be_kept_is_reported(world, monkeypatch):
    world.dynamic_vram, world.can_keep = True, False
    monkeypatch.setattr(module, "own_bytes", lambda _: None)
    monkeypatch.setattr(module, "has_flag", lambda flag: flag == "--reserve-vram")
    limit = Limit({VARIABLE: "10"}, {}, "linux")
    limit.apply()
    context, pages = texts(limit)
    assert "needs some hundred MiB more for this server on cuda:0" in context
    assert pages == ("dynamic VRAM cannot be limited while it runs: "
                     "start ComfyUI with --reserve-vram 14.0")
    monkeypatch.setattr(base, "backend", lambda _: None)
    limit.apply()
    assert "torch has no limit of its own for cuda:0" in texts(limit)


def test_a_limit_above_the_card_changes_nothing_and_the_log_says_so_once(world, caplog):
    limit = Limit({VARIABLE: "8000"}, {}, "linux")
    base._ceilings[str(CARD)] = base.Ceiling(10 * GIB, 10 * GIB, 10 * GIB)  # of an earlier limit
    for _ in range(2):
        limit.before_prompt()
    assert held() is None
    sentence = "cuda:0 has 24,576.0 MiB: the limit of 8000 GiB changes nothing there"
    assert texts(limit) == [sentence]
    assert [one.getMessage() for one in caplog.records] == [
        f"[Headroom] VRAM limit 8000 GiB: {sentence}"]


def test_of_two_different_cards_dynamic_vram_keeps_the_limit_of_the_first(world, monkeypatch):
    world.dynamic_vram = True
    monkeypatch.setattr(module, "devices_in_use", lambda: [CARD, torch.device("cuda", 1)])
    monkeypatch.setattr(module, "measure_device", lambda device: DeviceMemory(
        str(device), "Card", (24 - 8 * device.index) * GIB, 16 * GIB, 0, 0, 0,
        ceiling=base.ceiling_of(device)))
    limit = Limit({VARIABLE: "10"}, {}, "linux")
    limit.apply()
    assert texts(limit) == ["dynamic VRAM has one value for all cards: it is that of cuda:0"]


def test_a_server_on_the_cpu_says_that_nothing_can_be_limited(world, monkeypatch):
    monkeypatch.setattr(module, "devices_in_use", lambda: [])
    Limit({}, {}, "win32").apply()  # no caller has asked for it
    limit = Limit({}, {}, "linux")
    assert texts(limit) == []
    limit.set("10")
    assert texts(limit) == ["nothing can be limited: this server computes on the CPU"]


def test_on_windows_the_pools_gaps_take_nothing_off_what_tensors_may_have(world, monkeypatch):
    monkeypatch.setattr(module, "is_pool", lambda _: True)
    Limit({}, {}, "win32").apply()
    assert held() == (21.5, 21.5, 21.5)


def test_on_windows_the_limit_is_just_below_what_the_card_has_beside_the_desktop(world):
    Limit({}, {}, "linux").apply()
    assert held() is None
    Limit({VARIABLE: "off"}, {}, "win32").apply()
    assert held() is None
    limit = Limit({}, {}, "win32")
    limit.apply()
    assert held() == (21.5, 21.5, 21.5)  # of 24: 2 are others' and the context, 0.5 stays free
    limit.set("off")
    assert held() is None
