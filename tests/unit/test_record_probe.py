"""What the recorder reads: every device in use, and unknown is what cannot be read."""

import json
import subprocess
from pathlib import Path

import psutil
import pytest
import torch

import fakecuda
from fakecuda import FakeCuda
from headroom.base import device as devices
from headroom.record import probe as record_probe
from headroom.record.memory import Use
from headroom.record.probe import Probe

MIB = 1024 * 1024
FIRST, SECOND = torch.device("cuda", 0), torch.device("cuda", 1)


class Cuda:
    """Stands for `torch.cuda` with two devices; the second is not in use unless said."""

    def __init__(self):
        self.in_use = {FIRST}
        self.stats = dict(current=300 * MIB, peak=900 * MIB, allocated=1000 * MIB, freed=700 * MIB)

    def empty_cache(self): ...

    def mem_get_info(self, device):
        return (8000 - 1000 * (1 + device.index)) * MIB, 8000 * MIB

    def memory_stats_as_nested_dict(self, device):
        return {"reserved_bytes": {"all": self.stats}}

    def memory_allocated(self, device):
        return 100 * MIB

    def memory_reserved(self, device):
        return self.stats["current"]

    def get_device_name(self, device):
        return "A card"


@pytest.fixture
def cuda(monkeypatch):
    cuda = Cuda()
    monkeypatch.setattr(torch, "cuda", cuda)
    monkeypatch.setattr(devices, "is_in_use", lambda device: device in cuda.in_use)
    monkeypatch.setattr(record_probe, "used_devices", lambda: [FIRST, SECOND])
    return cuda


def begun():
    probe = Probe()
    return probe, probe.begin_run()


def test_every_device_is_read_and_one_not_in_use_is_unknown(cuda):
    probe, names = begun()
    assert names == ("cuda:0", "cuda:1")
    assert probe.measured().devices == (
        Use(1000 * MIB, 300 * MIB, 700 * MIB, 900 * MIB, 8000 * MIB), Use()
    )
    cuda.in_use.add(SECOND)
    assert probe.measured().devices[1].used_bytes == 2000 * MIB


@pytest.mark.parametrize(
    "changes",
    [
        {"allocated": 0, "freed": 0},  # cudaMallocAsync
        {"allocated": 50 * MIB, "freed": 0},  # somebody has reset the sums
        {"allocated": 0, "freed": 0, "current": 0},  # either, with nothing reserved now
    ],
)
def test_what_was_given_back_is_unknown_where_the_allocator_does_not_add_it_up(cuda, changes):
    cuda.stats.update(changes)
    probe, _ = begun()
    use = probe.measured().devices[0]
    assert use.returned_bytes is None and use.peak_bytes == 900 * MIB


def test_a_backend_without_statistics_tells_the_reserve_and_no_peak(cuda, monkeypatch):
    monkeypatch.delattr(Cuda, "memory_stats_as_nested_dict")
    probe, _ = begun()
    assert probe.measured().devices[0] == Use(1000 * MIB, 300 * MIB, None, None, 8000 * MIB)


def test_a_driver_that_does_not_tell_leaves_what_this_process_holds(cuda, monkeypatch):
    monkeypatch.delattr(Cuda, "mem_get_info")
    probe, _ = begun()
    use = probe.measured().devices[0]
    assert (use.used_bytes, use.total_bytes) == (300 * MIB, None)


def test_a_cpu_server_has_no_devices(monkeypatch):
    monkeypatch.setattr(record_probe, "used_devices", list)
    probe, names = begun()
    assert names == () and probe.measured().devices == ()


def test_figures_are_taken_again_only_when_asked_and_only_while_young(cuda):
    now = [100.0]
    probe = Probe(lambda: now[0])
    probe.begin_run()
    first = probe.measured()
    cuda.stats["current"] = 555 * MIB
    now[0] = 100.0004
    assert probe.measured(0.0005) == first._replace(at=100.0004)
    assert probe.measured().devices[0].reserved_bytes == 555 * MIB
    cuda.stats["current"] = 777 * MIB
    now[0] = 100.1
    assert probe.measured(0.0005).devices[0].reserved_bytes == 777 * MIB


def test_rss_is_what_the_system_says():
    told = psutil.Process().memory_info().rss
    assert abs(Probe().measured().rss_bytes - told) < 0.2 * told


def test_memory_that_cannot_be_read_does_not_end_the_prompt(cuda, caplog, monkeypatch):
    probe, _ = begun()
    monkeypatch.setattr(Cuda, "mem_get_info", lambda self, device: 1 / 0)
    for _ in range(100):
        reading = probe.measured()
    assert reading.rss_bytes is None and reading.devices == (Use(), Use())
    assert caplog.text.count("the prompt goes on") == 1


SCRIPT = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})
import torch
from headroom.record.memory import between
from headroom.record.probe import Probe

def bounds(before):
    return [tuple(peak) for peak in between(before, probe.measured())]

def take(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")

torch.cuda.mem_get_info()
probe = Probe()
probe.begin_run()
held, before = take(1000), probe.measured()
found = [bounds(before)]
del held
torch.cuda.empty_cache()
before = probe.measured()
held = take(100)
found.append(bounds(before))
del held
torch.cuda.empty_cache()
found.append(bounds(before))
print(json.dumps(dict(found=found, told=before.devices[0].returned_bytes is not None)))
"""


@pytest.mark.fakecuda
@pytest.mark.skipif(bool(fakecuda.why_not()), reason=fakecuda.why_not() or "")
@pytest.mark.parametrize("allocator", ["native", "expandable", "async"])
def test_the_bounds_hold_with_each_of_pytorchs_own_allocators(tmp_path, allocator):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    command = fakecuda.command(FakeCuda(allocator=allocator), script)
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["told"] == (allocator != "async")
    still, rising, given_back = (peaks[0] for peaks in answer["found"])
    assert still[0] == still[1] >= 1000 * MIB
    assert 100 * MIB <= rising[0] <= 140 * MIB and rising[0] <= rising[1]
    assert given_back[1] >= 100 * MIB
    if answer["told"]:
        assert rising[0] == rising[1] == given_back[0] == given_back[1]
