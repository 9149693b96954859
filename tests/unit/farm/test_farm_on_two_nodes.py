"""A farm on a Ray cluster of two nodes, of which the second does not see the driver's folder.

Both nodes are on this machine. The second one runs in a mount namespace of its own, in which an
empty file system lies over the folder of the results, as if it were another machine.
"""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from support import fake_comfy

# Not imported here: every test process reads all files.
pytestmark = [pytest.mark.ray, pytest.mark.skipif(
    find_spec("ray") is None, reason="needs Ray: pip install -r farm/requirements.txt")]
ROOT = Path(__file__).resolve().parents[3]
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
    started = []

    def start(*words, inside=()):
        command = [*inside, sys.executable, "-m", "ray.scripts.scripts", "start", "--block",
                   "--node-ip-address", "127.0.0.1", "--disable-usage-stats",
                   "--object-store-memory", str(128 << 20), *words]
        with (tmp_path / "ray.log").open("ab") as log:
            started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path))

    yield start
    for process in reversed(started):
        process.send_signal(signal.SIGTERM)
    for process in started:
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_for_nodes(address, count):
    """From another process: an interpreter has one connection to Ray."""
    look = ("import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False); "
            "sys.exit(sum(n['Alive'] for n in ray.nodes()) != int(sys.argv[2]))")
    until = time.monotonic() + LONGEST_SECONDS
    while subprocess.run([sys.executable, "-c", look, address, str(count)],
                         capture_output=True).returncode:
        assert time.monotonic() < until
        time.sleep(0.5)


def prompts(folder):
    """Prompts that save a file each; gives the path of their file."""
    path = folder / "p.jsonl"
    path.write_text("\n".join(json.dumps({"1": {"class_type": "Fake", "inputs": {
        "mib": 100, "seed": n, "seconds": 0.05, "filename_prefix": f"f{n}"}}})
        for n in range(8)), encoding="utf-8")
    return path


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_servers_on_another_node_give_their_results_to_a_driver_whose_folder_they_do_not_see(
    node, tmp_path,
):
    head = tmp_path / "head"
    if not can_hide(head):
        pytest.skip("this system lets nobody have a mount namespace (`unshare --mount`)")
    address = f"127.0.0.1:{free_port()}"
    node("--head", "--port", address.split(":")[1], "--num-cpus", "1",
         "--include-dashboard", "false")
    wait_for_nodes(address, 1)
    node("--address", address, "--num-cpus", "1", "--resources", '{"other": 2}',
         "--min-worker-port", "20000", "--max-worker-port", "20999",
         inside=[*HIDDEN, str(head)])
    wait_for_nodes(address, 2)
    command = [sys.executable, fake_comfy.__file__, "--port", "{port}", "--mib", "500"]
    there = {"command": command, "gpus": 0, "resources": {"other": 1}}
    (head / "servers.json").write_text(json.dumps([{"name": "far", "count": 2, **there}]))
    ended = subprocess.run(
        [sys.executable, "-m", "farm", "run", str(prompts(head)), "--ray", address,
         "--servers", str(head / "servers.json"), "--results", str(head / "results")],
        cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_SECONDS,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    results = list(head.glob("results/*/result.json"))
    assert len(results) == 8
    for path in results:
        [file] = json.loads(path.read_text())["files"]
        saved = (path.parent / file["name"]).read_bytes()
        assert hashlib.sha256(saved).hexdigest() == file["sha256"]
