"""RAM that really runs out inside our functions: the error is one of memory, nothing is changed.

A child process may take some MiB of address space more than it has, as in a full container. Each
work is done without room, which must fail, and then with room, which must succeed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="needs the limits of a POSIX system")

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import contextlib, copy, gc, hashlib, json, resource, sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
import headroom
from headroom.actions.mapping import map_modules
from headroom.encode.cache_key import EmbeddingLookup
from headroom.encode.disk_cache import EmbeddingCache
from headroom.encode.encode import encode_to_cpu
from headroom.base.stored_value import from_bytes, to_bytes
from headroom.guard.errors import is_out_of_memory, where_of
from headroom.guard.call import Call
from headroom.guard.call import GuardOptions
from headroom.guard.recover import recover

MIB, ROOM_MIB, SIZE = 1 << 20, 4, 2048  # weights of 16 MiB

@contextlib.contextmanager
def no_room(mib=ROOM_MIB):
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + mib * MIB
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)

def digest(tensors):
    return hashlib.sha256(b"".join(t.detach().numpy().tobytes() for t in tensors)).hexdigest()

class Table(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)
        self.table = torch.ones(SIZE, SIZE)  # neither a weight nor a buffer

class Encoder:
    def tokenize(self, text):
        return text
    def encode_from_tokens_scheduled(self, tokens):
        return [[big, {}]]

torch.manual_seed(1)
linear = torch.nn.Linear(SIZE, SIZE)
mapped = torch.nn.Linear(SIZE, SIZE)
table = Table()
big = torch.ones(SIZE, SIZE)
cache = EmbeddingCache(Path(tempfile.mkdtemp(dir=sys.argv[2])))
folder = Path(sys.argv[2])

def needs_room():
    return torch.empty(SIZE, SIZE).fill_(2.0)

class Needs(Call):
    def run(self, plan):
        return needs_room()

def again():
    return recover(Needs(), GuardOptions(max_attempts=3))

works = {
    "cast": lambda: headroom.cast(linear, "bfloat16"),
    "cast of a module with a table": lambda: headroom.cast(table, "bfloat16"),
    "move to CPU": lambda: headroom.to_cpu({"samples": big, "half": big[:, ::2]}),
    "encode": lambda: encode_to_cpu(Encoder(), ["a"], lookup=EmbeddingLookup(cache, "it")),
    "offload to disk": lambda: map_modules([mapped], folder),
    "guarded call": again,
}
answers = {}
for name, work in works.items():
    owned = [*linear.parameters(), *mapped.parameters(), *table.parameters(), table.table, big]
    before, error = digest(owned), None
    with no_room():
        try:
            work()
        except Exception as raised:
            error = raised
            told = [type(raised).__name__, str(raised)[:300]]
            out, where = is_out_of_memory(raised), where_of(raised)
    if error is None:
        answers[name] = "did not fail"
        continue
    del error
    same = digest(owned) == before and all(tensor.device.type == "cpu" for tensor in owned)
    work()
    left = [path.name for path in folder.iterdir() if path != cache.folder]
    answers[name] = {"told": told, "out": out, "where": where, "same": same, "left": left}

def outcome(work, mib):
    with no_room(mib):
        try:
            return "done" if work() is not None else "nothing"
        except Exception as raised:
            return type(raised).__name__ if is_out_of_memory(raised) else repr(raised)[:200]

huge = torch.ones(2 * SIZE, 2 * SIZE)  # more than what earlier works left free on the heap
stored = to_bytes([[huge, {}]], "key")
for name, work in (("write", lambda: to_bytes([[huge, {}]], "key")),
                   ("read", lambda: from_bytes(stored, "key"))):
    answers[name] = [outcome(work, mib) for mib in range(1, 301, 27)]
print(json.dumps(answers))
"""
WORKS = ("cast", "cast of a module with a table", "move to CPU", "encode", "offload to disk",
         "guarded call")


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ram")
    script = folder / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script, ROOT, folder], capture_output=True, text=True,
        # Without the threshold, what one work has freed may be room enough for the next.
        env={**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1",
             "MALLOC_MMAP_THRESHOLD_": str(1 << 20)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
@pytest.mark.parametrize("work", WORKS)
def test_without_ram_the_error_is_one_of_memory_nothing_is_changed_and_it_works_later(
    answers, work
):
    found = answers[work]
    assert found != "did not fail"
    assert found["same"] and set(found["left"]) <= {"script.py"}
    if work == "offload to disk":
        assert found["told"][0] == "DiskRefused" and "the weights are in RAM" in found["told"][1]
    else:
        assert found["out"] and found["where"] == "RAM", found["told"]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
@pytest.mark.parametrize("way", ["write", "read"])
def test_an_embeddings_file_needs_its_ram_or_says_so_whatever_is_left(answers, way):
    assert set(answers[way]) == {"done", "MemoryError"}
