"""A model file that is larger than the machine's RAM is mapped in a dry run."""

import pytest
from support.cuda_scripts import NEEDS_FAKE_CUDA, script_runner

from tools.sparse_files import SparseFile, Weight, write_sparse

pytestmark = NEEDS_FAKE_CUDA
LARGER_THAN_ANY_RAM = 1 << 41  # two TiB, of which the disk holds nothing


def test_a_file_larger_than_the_ram_is_read_and_takes_none(tmp_path):
    weight = Weight("F16", (LARGER_THAN_ANY_RAM // 2 // 4096, 4096))
    file = write_sparse(tmp_path / "a.safetensors", SparseFile({"weight": weight}))
    found = script_runner(tmp_path)(f"""
import resource
from safetensors import safe_open
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with safe_open({str(file)!r}, framework="pt") as file:
    weight = file.get_tensor("weight")
weight[-1, 0] = 3  # it can be written to, and the file stays
show(shape=list(weight.shape), ends=[weight[0, 0].item(), weight[-1, 0].item()],
     taken_mib=(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
""", copy_at_most_kib=64)
    assert found["shape"] == list(weight.shape)
    assert found["ends"] == [0, 3] and found["taken_mib"] < 64
    assert file.stat().st_blocks * 512 < 1 << 20


@pytest.mark.parametrize("kib", [1024, 16])
def test_the_pager_reads_no_file_for_a_copy_that_is_counted(tmp_path, kib):
    pytest.importorskip("comfy_aimdo")
    found = script_runner(tmp_path)(f"""
import torch
import comfy_aimdo.host_buffer as pager
there = torch.empty({kib} << 10, dtype=torch.uint8, device="cuda")
before = opened().device().htod_bytes
pager.read_file_to_device(None, 0, there.nbytes, 0, there.data_ptr(), 0)  # there is no such file
show(copied=opened().device().htod_bytes - before)
""", copy_at_most_kib=64)
    assert found["copied"] == kib << 10


def test_what_aimdo_maps_is_read_one_page_at_a_time(tmp_path):
    control = pytest.importorskip("comfy_aimdo.control")
    if not hasattr(control, "init"):
        pytest.skip("this comfy-aimdo maps no files")
    file = write_sparse(tmp_path / "a.safetensors",
                        SparseFile({"weight": Weight("F16", (1 << 20, 64))}))
    found = script_runner(tmp_path)(f"""
import comfy_aimdo.control
comfy_aimdo.control.init()
from comfy_aimdo.model_mmap import ModelMMAP
from pathlib import Path
mapped = ModelMMAP({str(file)!r})
maps = Path("/proc/self/smaps").read_text().split("VmFlags:")
after = next(place for place, one in enumerate(maps) if {file.name!r} in one) + 1
show(flags=maps[after].split("\\n")[0].split())
""", copy_at_most_kib=64)
    assert "rr" in found["flags"]  # Linux's word for MADV_RANDOM
