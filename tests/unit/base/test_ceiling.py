"""A limit as people write it, and the bytes that it leaves for the next tensor."""

import pytest
import torch

from headroom.base import ceiling as module
from headroom.base.ceiling import Ceiling, amount_of, ceiling_of, limit_torch, within

GIB = 1 << 30


@pytest.mark.parametrize("text, wanted, shown", [
    ("10", 10 * GIB, "10 GiB"), ("10 GiB", 10 * GIB, "10 GiB"), ("7.5gb", 7.5 * GIB, "7.5 GiB"),
    ("80%", 0.8 * 24 * GIB, "80%"), (" 80 % ", 0.8 * 24 * GIB, "80%"), ("99", 24 * GIB, "99 GiB"),
    ("7.33333", 7.33333 * GIB, "7.33333 GiB"),
])
def test_a_size_is_gib_or_a_share_of_the_card_and_never_more_than_it_has(text, wanted, shown):
    found = amount_of(text)
    assert found.bytes_of(24 * GIB) == int(wanted) and str(found) == shown


@pytest.mark.parametrize("text", [
    "", "ten", "-1", "0", "0.1", "1%", "120%", "10 MiB", "1e3", "off"])
def test_a_wrong_or_too_small_limit_is_none(text):
    assert amount_of(text) is None


@pytest.mark.parametrize("torchs, pages, left", [
    (0, 0, 6), (3, 0, 3), (3, 2, 2), (6, 0, 0), (5, 4, 0), (0, 7, 0)])
def test_the_room_left_is_within_the_limit_and_within_torchs_own_part(torchs, pages, left):
    assert Ceiling(8, 7, 6).left_bytes(torchs, pages) == left


@pytest.fixture
def fractions(monkeypatch):
    """The fractions that torch.cuda gets, on a device with 2 GiB in tensors."""
    asked = []

    class Cuda:
        def set_per_process_memory_fraction(self, share, device):
            asked.append((round(share, 3), str(device)))

    monkeypatch.setattr(module, "_ceilings", {})
    monkeypatch.setattr(module, "backend", lambda device: Cuda() if device.type == "cuda" else None)
    monkeypatch.setattr(module, "torch_memory", lambda device: (2 * GIB, 3 * GIB))
    return asked


def test_torch_is_told_its_share_and_only_what_we_have_set_is_taken_back(fractions):
    card = torch.device("cuda", 0)
    assert limit_torch(card, 8 * GIB, None) and fractions == []
    assert within(card, 5 * GIB, lambda _: 0) == 5 * GIB
    assert limit_torch(card, 8 * GIB, Ceiling(6 * GIB, 5 * GIB, 4 * GIB))
    assert fractions == [(0.5, "cuda:0")]
    assert ceiling_of(torch.device("cuda")).torch_bytes == 4 * GIB
    assert within(card, 5 * GIB, lambda _: 0) == 2 * GIB
    assert within(card, 5 * GIB, lambda _: 2 * GIB) == 1 * GIB
    assert limit_torch(card, 8 * GIB, None)
    assert fractions[1:] == [(1.0, "cuda:0")] and ceiling_of(card) is None


def test_a_device_without_a_limit_of_torchs_own_has_none(fractions):
    assert not limit_torch(torch.device("privateuseone", 0), GIB, Ceiling(1, 1, 1))
    assert ceiling_of(torch.device("privateuseone", 0)) is None
