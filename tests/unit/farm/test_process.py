"""Servers that a farm starts itself: what dies or hangs is started anew, and nothing is left."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest
from support.farm_orders import PATIENT, SILENT, Waited, asked, once, order

import fake_comfy
from farm.errors import known_errors
from farm.process import PORTS, free_port
from farm.seat import Seats
from farm.servers import ServerSpec
from farm.sockets import hear
from farm.words import Facts
from farm.worker import ServerFailed
from tools.client import Client
from tools.waiting import wait_until

FAKE = str(Path(fake_comfy.__file__))
posix = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")


def started(tmp_path, command, patience=PATIENT):
    spec = ServerSpec("own", "", tuple(command), str(tmp_path))
    return Waited(spec, patience, known_errors(), tmp_path)


def own(tmp_path):
    command = [sys.executable, FAKE, "--port", "{port}", "--mib", "700"]
    return started(tmp_path, command, SILENT)


@posix
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP])
def test_a_started_server_that_dies_or_hangs_is_lost_and_started_anew(tmp_path, sign):
    with closing(own(tmp_path)) as worker:
        facts = worker.start()
        assert facts == Facts(700, 700, True)
        first = worker.worker._process
        once(lambda: Client(facts.url).get_json("/queue")["queue_running"],
             lambda: os.kill(first.pid, sign))
        assert worker.run(order(asked(seconds=100))).ending == "lost"
        worker.worker._patience = PATIENT
        assert worker.start() == Facts(700, 700, True)
        assert first.poll() is not None
        assert worker.run(order(asked(seed=1))).ending == "done"
    assert worker.worker._process is None


def test_a_command_that_fails_is_one_sentence_with_the_last_word_of_its_log(tmp_path):
    ends = [sys.executable, "-c", "raise SystemExit('no {port}')"]
    with closing(started(tmp_path, ends)) as worker, pytest.raises(
            ServerFailed, match="own does not answer: .* ends with: no [0-9]+") as error:
        worker.start()
    assert "\n" not in str(error.value)
    with closing(started(tmp_path, [str(tmp_path / "none"), "{port}"])) as worker, pytest.raises(
            ServerFailed, match="own cannot be started: No such file"):
        worker.start()


def test_the_port_of_a_started_server_is_none_that_another_program_gets_by_chance():
    with socket.create_server(("127.0.0.1", 0)) as given:
        assert given.getsockname()[1] not in PORTS
    found = {free_port() for _ in range(50)}
    assert found <= set(PORTS) and len(found) > 1


@posix
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_started_server_ends_with_the_process_that_started_it(tmp_path):
    pid = orphan(tmp_path, (
        "child = process.start([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " Path('.'), {}, Path(sys.argv[2]))\nprint(child.pid, flush=True); time.sleep(60)\n"))
    wait_until(lambda: state_of(pid) == "Z")


@posix
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
@pytest.mark.parametrize("ends", ["process._ends_with_parent()", "processes.child_setup()"])
def test_a_server_ends_also_if_the_process_that_started_it_was_killed_just_then(tmp_path, ends):
    log = tmp_path / "log"
    pid = orphan(tmp_path, (
        f"ends, parent = {ends}, os.getpid()\n"
        "if child := os.fork(): print(child, flush=True); time.sleep(60)\n"
        "while os.getppid() == parent: time.sleep(0.01)\n"
        "ends(); Path(sys.argv[2]).write_text('runs'); time.sleep(60)\n"))
    wait_until(lambda: state_of(pid) == "Z" or log.exists())
    assert not log.exists()


def orphan(folder, code):
    """The id that a process prints, which is killed then; it has the farm's and tools' modules."""
    root = Path(sys.modules["farm"].__file__).parent.parent
    code = ("import os, sys, time; sys.path.insert(0, sys.argv[1])\n"
            f"from pathlib import Path\nfrom farm import process\n"
            f"from tools import processes\n{code}")
    with subprocess.Popen([sys.executable, "-c", code, str(root), str(folder / "log")],
                          stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
    return pid


def state_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_a_server_that_was_away_for_days_is_still_looked_for(monkeypatch):
    monkeypatch.setattr("farm.seat.AGAIN_SECONDS", (0.0, 0.0))
    monkeypatch.setattr("farm.seat.HEARD_SECONDS", 0.0)

    class Back:
        starts = 0

        async def start(self):
            self.starts += 1
            if self.starts < 3:
                raise ServerFailed("away")
            return Facts()

    seats = Seats({"a": Back()}, (), lambda seat: None, lambda text: None)
    seats.of["a"].failed_starts = 2000
    asyncio.run(seats.have(seats.of["a"]))
    assert seats.of["a"].state == "idle"


def test_a_server_that_ended_before_it_was_heard_does_not_stay_idle():
    """Otherwise a farm without work would show it as idle for ever, and never as asleep."""

    async def listened():
        facts = SimpleNamespace(url=f"http://127.0.0.1:{free_port()}")  # nobody listens there
        seat = SimpleNamespace(answers=asyncio.Event(), is_heard=asyncio.Event(),
                               server=SimpleNamespace(facts=facts))
        seat.answers.set()
        told = asyncio.get_running_loop().create_future()
        door = SimpleNamespace(is_deaf=told.set_result)
        async with aiohttp.ClientSession() as session:
            listening = asyncio.ensure_future(hear(door, seat, session))
            try:
                return await asyncio.wait_for(told, 120) is seat
            finally:
                listening.cancel()

    assert asyncio.run(listened())
