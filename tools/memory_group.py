"""A cgroup with a memory limit, as a container has it: the kernel ends who takes more."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import NotHere

ROOTS = {Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes",
         Path("/sys/fs/cgroup"): "memory.max"}
MIB = 1 << 20


@contextmanager
def memory_group(limit_mib: int) -> Iterator[Path]:
    """A group of our own with that limit: a folder, into whose cgroup.procs processes are put.

    What a process had taken before counts for the group that it came from. NotHere where no group
    can be made, which takes root.
    """
    made = Path()
    try:
        root = next(root for root, file in ROOTS.items() if (root / file).exists()
                    or "memory" in (root / "cgroup.subtree_control").read_text().split())
        made = root / f"headroom-test-{uuid.uuid4().hex[:8]}"
        made.mkdir()
        (made / ROOTS[root]).write_text(str(limit_mib * MIB))
    except (OSError, StopIteration) as error:
        raise NotHere(f"no cgroup with a memory limit can be made here: {error!r}") from error
    try:
        yield made
    finally:
        made.rmdir()
