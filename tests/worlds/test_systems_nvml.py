"""Processes on the card: this process never counts as another, whatever numbers NVML gives."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from support.calls import Changing
from support.systems import MIB, Card, Nvml

import fakecuda
from fakecuda import FakeCuda
from headroom.advise import from_run
from headroom.guard.attempt import Failure
from headroom.guard.call import GuardOptions
from headroom.guard.explain import explain
from headroom.guard.lack import Lack
from headroom.measure import nvml
from headroom.measure import other_processes as module
from headroom.measure.snapshot import snapshot

ROOT = Path(__file__).resolve().parents[2]
HOSTS_ID = 107887  # of this process, as the host counts


@pytest.fixture
def on_card(monkeypatch):
    """Put processes on a card of which this process holds 22,000 of 24,000 MiB."""

    def put(*processes, in_container=True, **memory):
        monkeypatch.setattr(module, "_has_machine_numbers", lambda: not in_container)
        figures = {"total": 24_000, "allocated": 21_000, "reserved": 22_000, **memory}
        figures.setdefault("driver_free", max(0, figures["total"] - sum(
            mib or 0 for _, mib in processes)))
        Card(monkeypatch, **figures)
        monkeypatch.setattr(nvml, "_nvml", lambda: Nvml(*processes))

    return put


def told():
    """What the final error of OOM Guard and the advice say about other processes."""
    failed = Failure.of(torch.OutOfMemoryError("Tried to allocate 3.00 GiB."))
    text = explain(Changing(None), GuardOptions(), [failed], [], snapshot(), Lack("device"))
    return text.split("Most likely to help: ")[1], from_run.others()


def test_in_a_container_nobody_is_told_to_close_comfyui_itself(on_card):
    on_card((HOSTS_ID, 22_528))
    text, others = told()
    assert "closing" not in text and others == {}


def test_in_a_container_another_process_is_named_by_the_hosts_number(on_card):
    on_card((HOSTS_ID, 22_528), (4242, 1_000))
    text, others = told()
    assert text.startswith("closing PID 4242 outside of the container, which holds 1,000.0 MiB of "
                           "the same GPU")
    assert others == {"PID 4242 outside of the container": 1_000}


def test_a_process_is_named_only_where_it_cannot_be_this_one(on_card):
    on_card((HOSTS_ID, 2_400), (4242, 9_000), allocated=1_000, reserved=2_000)
    assert told()[1] == {}  # either could be this process, which may hold more than torch knows
    on_card((HOSTS_ID, 9_500), (4242, 2_000), allocated=1_000, reserved=9_000)
    assert told()[1] == {"PID 4242 outside of the container": 2_000}


def test_a_process_with_our_number_by_chance_is_named_all_the_same(on_card):
    on_card((os.getpid(), 1_000), (HOSTS_ID, 22_528))
    assert told()[1] == {f"PID {os.getpid()} outside of the container": 1_000}


@pytest.mark.parametrize("processes", [
    (),  # what many containers are told
    ((0, 22_528), (0, 1_000)),  # processes of another namespace have no number here
    ((HOSTS_ID, None), (4242, None)),  # Windows: WDDM manages the memory, not the driver
])
def test_a_process_that_cannot_be_told_from_ours_is_not_named(on_card, processes):
    on_card(*processes, driver_free=500)
    text, others = told()
    assert "closing" not in text and others == {}


def test_outside_of_containers_the_process_number_decides(on_card):
    on_card((os.getpid(), 9_000), (os.getppid(), 14_000), in_container=False, reserved=8_000)
    (name, mib), = told()[1].items()
    assert name.endswith(f"({os.getppid()})") and mib == 14_000


@pytest.mark.parametrize(("platform", "inode", "are_the_hosts"), [
    ("linux", module.FIRST_NAMESPACE, True),
    ("linux", 4026532999, False),
    ("linux", None, False),  # sandboxes without that file
    ("win32", None, True),
])
def test_a_container_is_told_by_its_namespace(monkeypatch, platform, inode, are_the_hosts):
    def stat(path):
        if inode is None:
            raise FileNotFoundError(path)
        return SimpleNamespace(st_ino=inode)

    monkeypatch.setattr(module, "sys", SimpleNamespace(platform=platform))
    monkeypatch.setattr(module, "os", SimpleNamespace(stat=stat))
    assert module._has_machine_numbers.__wrapped__() is are_the_hosts


def test_a_process_that_ends_meanwhile_is_named_by_its_number(on_card, monkeypatch):
    def gone(number):
        raise module.psutil.NoSuchProcess(number)

    on_card((os.getpid(), 22_500), (4242, 1_000), in_container=False)
    monkeypatch.setattr(module.psutil, "Process", gone)
    assert told()[1] == {"PID 4242": 1_000}


def test_memory_that_this_process_gives_back_meanwhile_does_not_make_it_another_one(
    on_card, monkeypatch
):
    on_card((HOSTS_ID, 5_000))
    held = iter([22_000, 4_600])
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: next(held) * MIB)
    assert module.other_processes(torch.device("cuda", 0)) == []


def test_a_card_of_amd_is_not_looked_up_among_those_of_nvidia(on_card, monkeypatch):
    on_card((4242, 1_000), in_container=False)
    monkeypatch.setattr(torch.version, "hip", "7.2")
    assert told()[1] == {}


def test_a_card_whose_nvml_refuses_a_figure_is_measured_without_it(monkeypatch):
    """Jetson and DGX Spark share their memory with the CPU: NVML tells no bytes."""

    card = Card(monkeypatch)
    monkeypatch.setattr(nvml, "_nvml", Nvml)
    card.silent = {"mem_get_info", "get_device_name"}
    (found,) = snapshot().devices
    assert found.driver_free_bytes is None and found.name == "cuda:0"


def test_a_driver_older_than_nvml_or_of_another_version_is_none(monkeypatch):
    def fails():
        raise pynvml.NVMLError("Driver/library version mismatch")

    pynvml = ModuleType("pynvml")
    pynvml.NVMLError, pynvml.nvmlInit = type("NVMLError", (Exception,), {}), fails
    monkeypatch.setitem(sys.modules, "pynvml", pynvml)
    nvml._nvml.cache_clear()
    assert nvml._nvml() is None and nvml.card_memory(torch.device("cuda", 0)) is None
    nvml._nvml.cache_clear()


def test_without_the_module_of_nvml_the_log_says_once_what_is_missing_and_how_to_get_it(
    monkeypatch, caplog
):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    nvml._nvml.cache_clear()
    for _ in range(2):
        assert nvml.card_name(torch.device("cuda", 0)) is None
    (line,) = caplog.messages
    assert "nvidia-ml-py" in line and "requirements.txt" in line
    nvml._nvml.cache_clear()


SCRIPT = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}]
import torch
from headroom.measure import other_processes as module
kept = torch.ones(200 << 18, device="cuda")
module._has_machine_numbers = lambda: False
print([(one.name, one.used_bytes >> 20) for one in module.other_processes(kept.device)])
"""


@pytest.mark.fakecuda
@pytest.mark.skipif(bool(fakecuda.why_not()), reason=fakecuda.why_not() or "")
@pytest.mark.parametrize(("other_mib", "told"), [
    (0, []), (90, [("PID 9000002 outside of the container", 90)])])
def test_torch_and_nvml_of_a_cuda_build_agree_on_who_this_process_is(tmp_path, other_mib, told):
    script, ledger = tmp_path / "script.py", str(tmp_path / "ledger")
    script.write_text(SCRIPT, encoding="utf-8")
    settings = FakeCuda(context_mib=300, other_mib=other_mib, host_pid=9_000_001, ledger=ledger)
    command = fakecuda.command(settings, script, ledger)
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.strip() == str(told), done.stderr
