"""The devices on which the tests of bytes run, and what each of them can tell."""

import pytest

from .worlds import EVERYWHERE, WORLDS

CPU = pytest.param("cpu", marks=pytest.mark.host)
SIMULATED = pytest.param("simulated", marks=pytest.mark.host)
REAL = pytest.param("real", marks=pytest.mark.gpu)
# Native allocator and dynamic VRAM.
REAL_PAGES = pytest.param("real, dynamic VRAM", marks=pytest.mark.gpu)
FAKE = [pytest.param(name, marks=[pytest.mark.host, pytest.mark.fakecuda]) for name in WORLDS
        if EVERYWHERE or name != "oldest, expandable"]
EVERY_GPU = [SIMULATED, *FAKE, REAL, REAL_PAGES]
MIB = 1 << 20


def emptied(device):
    """The device with room, nothing loaded, no other process and its peaks begun again."""
    device.set_capacity(1 << 20)
    device.unload()
    device.reset_peaks()
    return device.restore()


def taken_bytes(device):
    """What a server has of its device, in the device's own count."""
    if device.driver:
        return device.driver.device().used_bytes
    figures = device.collect()
    return figures.capacity_bytes - figures.free_bytes


def spare_bytes(device):
    """The tolerance on a real GPU: libraries and other processes use it as well."""
    return device.may_stay_bytes if device.server.gpu else 0


def pages_mib(device):
    """The pages of dynamic VRAM on the device; None where there is no such thing."""
    return device.client.get_json("/headroom/memory")["devices"][0]["dynamic_mib"]
