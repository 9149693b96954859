"""Small integers of a dry run have their real values; what a model computes stays unknown."""

from pathlib import Path

import pytest
from support.cuda_scripts import NEEDS_FAKE_CUDA, script_runner

from tools import dry_server

pytestmark = NEEDS_FAKE_CUDA
DRY = Path(dry_server.__file__).parent / "packs" / "headroom_dry"


@pytest.fixture
def run(tmp_path):
    start = (f"sys.path.insert(0, {str(DRY)!r})\n"
             "from headroom_dry_integers import Integers, tell_of_data\n")
    runs = script_runner(tmp_path)
    return lambda body, capacity_mib=1024: runs(
        start + body, capacity_mib=capacity_mib, copy_at_most_kib=64)


def test_lengths_computed_on_the_device_are_read_back(run):
    found = run("""
with Integers():
    grid = torch.tensor([[1, 74, 74], [2, 4, 6]], device="cuda")
    ends = torch.repeat_interleave(grid[:, 1] * grid[:, 2], grid[:, 0]).cumsum(0, dtype=torch.int32)
    ends = torch.nn.functional.pad(ends, (1, 0), value=0)
    lengths = ends[1:] - ends[:-1]
    rows = torch.cat([torch.arange(int(h), device="cuda") for _, h, _ in grid])
    seen = rows[rows >= 3].unique()
    tell_of_data()
    area = torch.as_tensor([[3, 4], [5, 6]], device="cuda").prod(-1)
    mask = torch.ones(2, 5, dtype=torch.int64, device="cuda")
    mask[1, 3:] = 0
    mask.mul_(2)
    parts = [part.shape[0] for part in torch.split(rows, [74, 4])]
    show(lengths=lengths.tolist(), first=lengths[0].item(), seen=seen.numel(),
         last=int(seen.max()), sums=mask.sum(1).tolist(), none=bool((mask < 0).any()),
         where=mask[1].nonzero().flatten().tolist(), parts=parts, on=str(lengths.device),
         area=area.tolist())
""")
    assert found == {"lengths": [5476, 24, 24], "first": 5476, "seen": 71, "last": 73,
                     "sums": [10, 6], "none": False, "where": [0, 1, 2], "parts": [74, 4],
                     "on": "cuda:0", "area": [12, 30]}


def test_known_counts_repeat_what_is_not_known(run):
    found = run("""
with torch.inference_mode(), Integers():
    tell_of_data()
    lengths = torch.as_tensor([[2, 3], [4, 5]], device="cuda").prod(-1)
    repeated = torch.repeat_interleave(torch.zeros(2, 9000, device="cuda"), lengths, dim=0)
    hidden, mask = torch.zeros(1, 30, 9000, device="cuda"), torch.zeros(
        1, 30, dtype=torch.bool, device="cuda")
    mask[:, 10:] = True
    cast = mask.to(torch.bfloat16).to("cuda")
    show(repeated=list(repeated.shape), picked=list(hidden[cast.bool()].shape))
""")
    assert found == {"repeated": [26, 9000], "picked": [20, 9000]}


def test_a_grid_that_shares_its_memory_is_known(run):
    found = run("""
with torch.inference_mode(), Integers():
    rows, columns = torch.meshgrid(torch.arange(3, device="cuda"),
                                   torch.arange(4, device="cuda"), indexing="ij")
    show(rows=rows[2].tolist(), columns=columns[2].tolist())
""")
    assert found == {"rows": [2, 2, 2, 2], "columns": [0, 1, 2, 3]}


def test_a_known_mask_picks_as_much_of_what_a_model_computes_as_it_holds(run):
    found = run("""
with Integers():
    x = torch.rand(1, 40, 8, device="cuda")
    mask = torch.zeros(1, 40, dtype=torch.bool, device="cuda")
    mask[0, 3:19] = True
    picked = x[mask]
    x[mask] = picked + torch.rand(16, 8, device="cuda")
    show(picked=list(picked.shape), again=list(x[mask].shape))
""")
    assert found == {"picked": [16, 8], "again": [16, 8]}


def test_values_that_a_model_computes_count_as_unknown(run):
    found = run("""
with Integers():
    scores = torch.rand(4, 8, device="cuda")
    ids = torch.tensor([5, 6, 7, 8], device="cuda")
    best = scores.argmax(-1)
    ids.copy_(best)
    show(best=best[0].item(), copied=ids[0].item(), bad=bool(scores.isnan().any()),
         ids=torch.tensor([5, 6], device="cuda").tolist())
""")
    assert found == {"best": 0, "copied": 0, "bad": False, "ids": [5, 6]}


def test_known_integers_cost_no_copy_and_no_other_memory(run):
    found = run("""
def taken():
    torch.cuda.empty_cache(); torch.cuda.reset_peak_memory_stats()
    before = opened().device().htod_bytes
    a = torch.arange(3000, device="cuda")
    b = (a * 2).cumsum(0)[::3]
    return torch.cuda.max_memory_allocated(), opened().device().htod_bytes - before, b.numel()
torch.arange(1, device="cuda")
plain = taken()
with Integers():
    show(plain=plain, known=taken())
""")
    assert found["plain"][1:] == found["known"][1:] == [0, 1000]
    assert abs(found["plain"][0] - found["known"][0]) <= 64 << 10  # of a scan's own workspace


def test_integers_too_large_to_be_read_back_are_not_made_in_ram(run):
    found = run("""
import resource
def most_mib(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
torch.zeros(1, device="cuda")
before = most_mib()
with Integers():
    made = [make((400, MIB // 2), dtype=torch.float16, device="cuda")
            for make in (torch.zeros, torch.ones)]
    made.append(torch.full((400, MIB), 7, dtype=torch.int8, device="cuda"))
    small = torch.full((3,), 7, device="cuda").tolist()
show(taken_mib=most_mib() - before, mib=[one.nbytes // MIB for one in made], small=small)
""", 2048)
    assert found["taken_mib"] < 64 and found["mib"] == [400] * 3 and found["small"] == [7, 7, 7]


def test_an_unknown_mask_leaves_nothing_out(run):
    """Of computed floats: the zeros of the driver would leave out all that a model works on."""
    found = run("""
with Integers():
    x = torch.rand(1, 40, 9000, device="cuda")
    kept = ~torch.any(torch.rand(1, 40, 30, device="cuda") < 0, dim=-1)[0]
    picked, whole = x[:, kept, :], torch.zeros(1, 40, 9000, device="cuda")
    whole[:, kept, :] = picked
    whole[x > 1] = 0
    show(picked=list(picked.shape), most=list(picked.max(dim=1)[0].shape))
""")
    assert found == {"picked": [1, 40, 9000], "most": [1, 9000]}


def test_what_a_program_can_decide_by_is_counted_and_what_it_only_computes_is_not(run):
    found = run("""
def counted(work):
    before = mode.reads
    work()
    return mode.reads - before
with Integers() as mode:
    lengths, rows = torch.tensor([2, 3], device="cuda"), torch.zeros(4, 9000, device="cuda")
    mask = torch.ones(4, dtype=torch.bool, device="cuda")
    show(never=[counted(lambda: lengths.cumsum(0) + 1), counted(lambda: rows[lengths]),
                counted(lambda: rows.add_(1).sum()), counted(lambda: int(torch.tensor([3])[0]))],
         always=[min(counted(lambda: lengths[0].item()), 1), min(counted(lambda: lengths.cpu()), 1),
                 min(counted(lambda: rows[mask]), 1), min(counted(lambda: mask.nonzero()), 1)])
""")
    assert found == {"never": [0] * 4, "always": [1] * 4}


def test_the_scale_of_quantised_values_is_not_computed(run):
    found = run("""
with Integers():
    scale = torch.ones((), device="cuda", dtype=torch.float32)
    count = torch.ones((), device="cuda", dtype=torch.int64)
    show(scale="_headroom_dry_known" in scale.__dict__, count=count.item())
""")
    assert found == {"scale": False, "count": 1}


def test_frames_are_not_copied_where_a_copy_is_made_of_several_operations(run):
    found = run("""
import resource
from headroom_dry_frames import uncomputed
def most_mib(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
with torch.inference_mode(), Integers(uncomputed):
    frames, before = torch.empty(64, 1024, 1024, 3), most_mib()
    made = [frames.permute(3, 0, 1, 2).contiguous(), frames.movedim(-1, 1).reshape(64, -1),
            frames.to(torch.float16)]
show(taken_mib=most_mib() - before, shapes=[list(one.shape) for one in made])
""")
    assert found["taken_mib"] < 64
    assert found["shapes"] == [[3, 64, 1024, 1024], [64, 3 << 20], [64, 1024, 1024, 3]]
