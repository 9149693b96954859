"""A farm on a Ray cluster of two nodes, of which the second does not see the driver's folder.

Both nodes are on this machine. The second one runs in a mount namespace of its own, in which an
empty file system lies over the folder of the results, as if it were another machine. It is killed
while its server works, and another node comes in its place.
"""

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

import fake_comfy

# Not imported here: every test process reads all files.
pytestmark = [pytest.mark.ray, pytest.mark.skipif(
    find_spec("ray") is None, reason="needs Ray: pip install -r farm/requirements.txt")]
ROOT = Path(__file__).resolve().parents[3]
PROMPTS = 8
LONGEST_SECONDS = 300  # a machine with too few cores needs a while
HIDDEN = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"']


def can_hide(folder):
    folder.mkdir()
    try:
        tried = subprocess.run([*HIDDEN, str(folder), "true"], capture_output=True, check=False)
    except OSError:
        return False
    return tried.returncode == 0


@pytest.fixture
def node(tmp_path, monkeypatch):
    """Starts a node of Ray that ends with the test."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # `ray start` would make a token for the user
    # Ray would end our actors where other programs have taken most of the RAM.
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")
    # Serve would end its proxy after 15 seconds, which are few beside many tests.
    monkeypatch.setenv("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "20")
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")  # that it is up is read in its log
    started = []

    def start(*words, inside=()):
        command = [*inside, sys.executable, "-m", "ray.scripts.scripts", "start", "--block",
                   "--node-ip-address", "127.0.0.1", "--disable-usage-stats",
                   "--object-store-memory", str(128 << 20), *words]
        path = tmp_path / f"ray{len(started)}.log"
        with path.open("wb") as log:
            started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path))
        until = time.monotonic() + LONGEST_SECONDS
        while "Ray runtime started" not in path.read_text():
            assert time.monotonic() < until and started[-1].poll() is None, path.read_text()
            time.sleep(0.2)
        return started[-1]

    yield start
    for process in started:
        kill(process)


def kill(process):
    """SIGKILL for a node and all that it has started, as when a machine loses its power."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for one in (process, *psutil.Process(process.pid).children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                one.kill()
    process.wait()


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def prompts(folder):
    """Prompts that save a file each; gives the path of their file."""
    path = folder / "p.jsonl"
    path.write_text("\n".join(json.dumps({"1": {"class_type": "Fake", "inputs": {
        "mib": 100, "seed": n, "seconds": 0.5, "filename_prefix": f"f{n}"}}})
        for n in range(PROMPTS)), encoding="utf-8")
    return path


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_server_on_another_node_gives_each_result_once_though_its_node_is_killed(node, tmp_path):
    head = tmp_path / "head"
    if not can_hide(head):
        pytest.skip("this system lets nobody have a mount namespace (`unshare --mount`)")
    address = f"127.0.0.1:{free_port()}"
    node("--head", "--port", address.split(":")[1], "--num-cpus", "1",
         "--include-dashboard", "false")

    def other():
        return node("--address", address, "--num-cpus", "1", "--resources", '{"other": 1}',
                    "--min-worker-port", "20000", "--max-worker-port", "20999",
                    inside=[*HIDDEN, str(head)])

    far = other()
    command = [sys.executable, fake_comfy.__file__, "--port", "{port}", "--mib", "500"]
    there = {"command": command, "gpus": 0, "resources": {"other": 1}}
    (head / "servers.json").write_text(json.dumps([{"name": "far", **there}]))
    with (tmp_path / "said").open("wb") as said:
        farm = subprocess.Popen(
            [sys.executable, "-m", "farm", "run", str(prompts(head)), "--ray", address,
             "--servers", str(head / "servers.json"), "--results", str(head / "results")],
            cwd=ROOT, stdout=said, stderr=said)
    try:
        until = time.monotonic() + LONGEST_SECONDS
        while len(list(head.glob("results/*/result.json"))) < PROMPTS // 4:
            assert farm.poll() is None and time.monotonic() < until, (tmp_path / "said").read_text()
            time.sleep(0.1)
        kill(far)
        other()
        farm.wait(LONGEST_SECONDS)
    finally:
        farm.kill()
    said = (tmp_path / "said").read_text()
    assert farm.returncode == 0 and "1 servers lost" in said, said
    results = [json.loads(path.read_text()) for path in head.glob("results/*/result.json")]
    assert sorted(one["name"].rpartition(":")[2] for one in results) == sorted(
        str(n + 1) for n in range(PROMPTS))
    for one in results:
        [file] = one["files"]
        saved = (head / "results" / one["key"] / file["name"]).read_bytes()
        assert hashlib.sha256(saved).hexdigest() == file["sha256"]
