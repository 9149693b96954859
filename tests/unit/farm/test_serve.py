"""`farm serve` as a process: nothing that it accepted is lost when it, or a server, is killed."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from http.client import HTTPException
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs ray[serve]: pip install -r farm/requirements.txt")

import psutil  # noqa: E402
from support.doors import processes, prompt, servers_in  # noqa: E402

import fake_comfy  # noqa: E402
from farm.process import free_port  # noqa: E402
from tools.client import Client  # noqa: E402
from tools.waiting import LONGEST_SECONDS, wait_until  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
PROMPTS = 40


@pytest.fixture
def serve(tmp_path):
    """Starts `farm serve` with one server of its own and one that it adopts; returns its URL."""
    comfy = fake_comfy.FakeComfy(4000)
    command = [sys.executable, fake_comfy.__file__, "--port", "{port}"]
    (tmp_path / "servers.json").write_text(json.dumps([
        {"name": "own", "command": command, "folder": str(tmp_path), "gpus": 0}]))
    words = ["serve", "--port", "0", "--servers", comfy.url, str(tmp_path / "servers.json"),
             "--results", str(tmp_path / "results"), "--silent-seconds", "60"]
    started = []

    def start(*more):
        log = tmp_path / f"log{len(started)}"
        with log.open("wb") as output:
            started.append(subprocess.Popen([sys.executable, "-m", "farm", *words, *more], cwd=ROOT,
                                            stdout=output, stderr=output))
        found = wait_until(lambda: re.search(r"The farm is at (\S+)", log.read_text()))
        wait_until(lambda: {one["state"] for one in servers_of(found[1])} <= {
            "idle", "busy", "asleep"})
        return found[1], started[-1]

    yield start, comfy
    for process in started:
        process.kill()
        process.wait()
    comfy.stop()


@pytest.mark.ray
@pytest.mark.skipif(sys.platform != "linux", reason="Ray Serve is tried on Linux")
def test_on_ray_serve_a_door_and_a_server_that_are_killed_come_back_and_go_on(serve, tmp_path):
    pytest.importorskip("ray.serve")
    start, _ = serve
    may_sleep(tmp_path)
    url, door = start("--ray", "local", "--port", str(free_port()))
    ids = queued(url)
    # Of this door: another test may have one on the same machine.
    [replica] = processes(lambda one: "ray::ServeReplica:farm:door" in "".join(one.cmdline()[:1]),
                          psutil.Process(door.pid).children(recursive=True))
    assert replica.environ()["RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S"] == "20"  # a minute in all
    replica.kill()
    wait_until(lambda: servers_of(url)[0]["state"] != "not there")
    for process in servers_in(tmp_path):
        process.kill()
    wait_until(lambda: servers_of(url)[0]["state"] != "not there" and all_done(url, ids))
    wait_until(lambda: servers_of(url)[-1]["state"] == "asleep" and not servers_in(tmp_path))
    door.send_signal(signal.SIGTERM)
    assert door.wait(LONGEST_SECONDS) == 130
    wait_until(lambda: not servers_in(tmp_path))


def may_sleep(folder):
    """Have the server that the farm starts end when it has had no work for a while."""
    path = folder / "servers.json"
    [own] = json.loads(path.read_text())
    path.write_text(json.dumps([{**own, "idle_seconds": 15}]))


def queued(url):
    graphs = [prompt(seconds=0.05, seed=n, filename_prefix=f"f{n}") for n in range(PROMPTS)]
    client = Client(url, LONGEST_SECONDS)
    return [client.queue(graph) for graph in graphs]


def told(url, path, otherwise):
    try:
        found = Client(url).get(path, {"X-Farm-Token": "s3cret"})[1]
    except (OSError, HTTPException):  # it is killed, or a proxy waits for a door that is away
        return otherwise
    return found if isinstance(found, dict) else otherwise


def history_of(url):
    return told(url, "/history", {})


def all_done(url, ids):
    history = history_of(url)
    return sorted(history) == sorted(ids) and all(
        one["status"]["status_str"] == "success" for one in history.values())


def servers_of(url):
    return told(url, "/farm", {"servers": [{"state": "not there"}]})["servers"]


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_nothing_that_was_accepted_is_lost_and_nothing_is_there_twice_whoever_is_killed(
        serve, tmp_path):
    start, comfy = serve
    url, door = start()
    ids = queued(url)
    wait_until(lambda: len(history_of(url)) >= 5)
    for process in servers_in(tmp_path):
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: len(history_of(url)) >= 12)
    door.kill()
    door.wait()
    wait_until(lambda: not servers_in(tmp_path))
    url, door = start()
    wait_until(lambda: all_done(url, ids))
    seeds = Counter(body["prompt"]["1"]["inputs"]["seed"] for body in comfy.posts("/prompt"))
    assert set(seeds.values()) == {1}  # an adopted server gets none twice
    door.send_signal(signal.SIGTERM)
    assert door.wait(LONGEST_SECONDS) == 130  # stopped
    wait_until(lambda: not servers_in(tmp_path))


def test_an_address_that_is_taken_is_one_sentence(tmp_path):
    comfy = fake_comfy.FakeComfy()
    done = subprocess.run(
        [sys.executable, "-m", "farm", "serve", "--servers", comfy.url, "--port",
         comfy.url.rpartition(":")[2], "--results", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_SECONDS)
    comfy.stop()
    assert done.returncode == 2 and "cannot be opened: Address already in use" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_batch_through_a_farms_address_has_each_result_once_and_goes_on(serve, tmp_path):
    start, comfy = serve
    url, _ = start("--token", "s3cret")
    graphs = [prompt(seed=n, filename_prefix=f"b{n}") for n in range(6)]
    graphs += [prompt(raises=True), prompt("Unknown"), graphs[0]]
    (tmp_path / "p.json").write_text(json.dumps(graphs))
    results = tmp_path / "batch"

    def run(token="s3cret"):
        return subprocess.run(
            [sys.executable, "-m", "farm", "run", str(tmp_path / "p.json"), "--farm", url,
             "--results", str(results), "--token", token], cwd=ROOT, capture_output=True,
            text=True, timeout=LONGEST_SECONDS)

    strange = run("wrong")
    assert strange.returncode == 2 and strange.stderr.count("\n") == 1, strange.stderr
    first = run()
    assert first.returncode == 1 and "6 prompts finished" in first.stdout, first.stderr
    assert "[7] failed" in first.stderr and "no such node" in first.stderr
    files = sorted(path.name for path in results.glob("*/b*.txt"))
    assert files == [f"b{n}_00001_.txt" for n in range(6)]
    queued = len(comfy.posts("/prompt"))
    again = run()
    assert "6 were finished before, 2 failed" in again.stdout
    assert len(comfy.posts("/prompt")) - queued <= 4  # only what had failed
