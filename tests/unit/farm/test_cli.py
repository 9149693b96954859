"""The command of the farm: what it refuses in one sentence, and what has to be installed."""

import asyncio
import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from farm import cli
from farm.__main__ import REQUIRED
from farm.store import FILE
from farm.words import FarmError

ROOT = Path(__file__).resolve().parents[3]
FARM = ROOT / "farm"


@pytest.fixture
def prompt(tmp_path):
    path = tmp_path / "p.json"
    path.write_text('{"1": {"class_type": "A", "inputs": {}}}', encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("words, says", [
    ((), "required"), (("--servers", "http://a", "--retries", "-1"), "whole number from 0 up"),
    (("--servers", "http://a", "--retries", "9" * 50), "whole number"),
    (("--servers", "http://a", "--silent-seconds", "0"), "expected seconds"),
    (("--servers", "http://a", "--prompt-seconds", "nan"), "expected seconds"),
    (("--servers", "http://a", "--start-seconds", "soon"), "expected seconds"),
    (("--servers", "http://a", "--after-oom", "pray"), "invalid choice"),
])
def test_a_wrong_option_is_one_sentence_and_exit_code_2(prompt, capsys, words, says):
    with pytest.raises(SystemExit) as end:
        cli.main(["run", prompt, *words])
    assert end.value.code == 2
    assert says in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("port", ["70000", "65536", "-1", "http"])
def test_a_port_that_there_is_not_is_one_sentence_and_exit_code_2(capsys, tmp_path, port):
    words = ["--servers", "http://127.0.0.1:9", "--results", str(tmp_path / "results")]
    with pytest.raises(SystemExit) as end:
        cli.main(["serve", "--port", port, *words])
    assert end.value.code == 2 and not (tmp_path / "results").exists()
    assert "expected a port, up to 65535" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("error, says", [
    (OSError(28, "No space left on device", f"results/{FILE}"), ("No space left", FILE)),
    (ConnectionRefusedError(111, "Connection refused"), ("Connection refused",)),
], ids=["disk", "network"])
def test_an_error_of_the_disk_or_of_the_network_is_one_sentence_that_names_its_own_place(
    monkeypatch, capsys, error, says
):
    def fails(args):
        raise error

    monkeypatch.setattr(cli, "run", fails)
    assert cli.main(["run", "p.json", "--servers", "http://a", "--results", "results"]) == 2
    said = capsys.readouterr().err
    assert all(words in said for words in says) and said.count("\n") == 1
    assert ("results" in said) == (FILE in said)


@pytest.mark.parametrize("source, servers, says", [
    ("none.json", "http://a", "none.json cannot be read"),
    (None, "gpu-box", "neither a URL"), (None, "http://", "is no URL"),
])
def test_an_unreadable_input_gets_one_sentence_before_anything_starts(
    prompt, capsys, tmp_path, source, servers, says,
):
    results = tmp_path / "results"
    words = ["run", source or prompt, "--servers", servers, "--results", str(results)]
    assert cli.main(words) == cli.WRONG
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("Error: ") and says in line
    assert not results.exists()


def test_the_pack_neither_ships_nor_requires_the_farm_nor_ray():
    for path in (ROOT / "__init__.py", *ROOT.glob("nodes/*.py")):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(from|import) [.\w]*\bfarm\b", text, re.MULTILINE), path
    for name in ("requirements.txt", "pyproject.toml"):
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        assert not any(line.startswith("ray") for line in lines)
    assert "/farm/" in (ROOT / ".comfyignore").read_text(encoding="utf-8").splitlines()


def test_every_requirement_is_known_to_be_one():
    lines = (FARM / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert [re.match("[a-z]+", line)[0] for line in lines if line[0] != "#"] == [
        "ray", *sorted(set(REQUIRED) - {"ray"})]


@pytest.mark.parametrize("name", ["aiohttp", "starlette", "ray"])  # at first, for a door, late
def test_a_requirement_that_is_not_installed_is_one_sentence(tmp_path, name):
    """In a process of its own, in which that package cannot be imported."""
    prompt = tmp_path / "p.json"
    prompt.write_text('{"1": {"class_type": "Fake", "inputs": {}}}')
    what = ["run", str(prompt)]
    if name == "ray":
        what += ["--ray", "local"]
    if name != "starlette":
        pytest.importorskip("starlette")  # the others are there too
    words = ["farm", *what, "--servers", "http://127.0.0.1:9",
             "--results", str(tmp_path / "results")]
    program = (f"import runpy, sys; sys.modules[{name!r}] = None; sys.argv = {words!r}; "
               "runpy.run_module('farm', run_name='__main__')")
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True,
                          text=True)
    assert done.returncode == 2
    assert done.stderr == (
        f"Error: the farm needs {name}, which this Python does not have; "
        "run: pip install -r farm/requirements.txt\n"
    )


SLOW_RAY = {
    "ray.init = fail(Exception('The current node timed out during startup. This could\\n'))":
        "Ray was to start on this machine, but said: "
        "The current node timed out during startup. This could; ",
    "ray.init = fail(ConnectionError())":
        "Ray was to start on this machine, but said: ConnectionError; ",
    "ray.serve.start = fail(TimeoutError('Proxies not available after 60s.'))":
        "Ray Serve was to start, but said: Proxies not available after 60s.; ",
    "ray.serve.run = fail(ray.exceptions.RayActorError())":
        "Ray Serve was to open the farm, but said: "
        "The actor experienced an error before finishing this task.; ",
}


def test_a_ray_that_is_too_slow_to_start_is_one_sentence_that_says_what_to_do(prompt, tmp_path):
    """In a process of its own, with a Ray that starts nothing and fails in one place after another.
    """
    pytest.importorskip("ray.serve")
    words = ["farm", "run", prompt, "--ray", "local", "--servers", "http://127.0.0.1:9",
             "--results", str(tmp_path / "results")]
    program = f"""if True:
        import contextlib, io, json, runpy, sys, ray, ray.serve
        def fail(error):
            def function(*_, **__): raise error
            return function
        found = []
        for fails in {list(SLOW_RAY)!r}:
            for name in ("start", "run", "delete", "shutdown"):
                setattr(ray.serve, name, lambda *_, **__: None)
            ray.init = ray.serve.start
            ray.cluster_resources, ray.util.get_node_ip_address = dict, lambda: "127.0.0.1"
            ray.serve.status = lambda: ray.serve.schema.ServeStatus()
            exec(fails)
            sys.argv = {words!r}
            with contextlib.redirect_stderr(io.StringIO()) as said:
                try:
                    runpy.run_module('farm', run_name='__main__')
                except SystemExit as end:
                    found.append([end.code, said.getvalue()])
        print(json.dumps(found))"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True,
                          text=True)
    assert json.loads(done.stdout or "null") == [[2, (
        f"Error: {says}give the same command again when the machine has less to do, or start Ray "
        "first (`ray start --head`) and add `--ray auto`.\n")] for says in SLOW_RAY.values()], done


def test_a_server_that_does_not_start_on_another_machine_is_one_sentence_too():
    pytest.importorskip("ray.serve")
    from ray.exceptions import RayTaskError

    from farm.replicas import Remote
    from farm.worker import ServerFailed

    class Handle:
        async def remote(self):
            raise RayTaskError("start", "Traceback …", ServerFailed("own does not answer.")
                               ).as_instanceof_cause()

    remote = object.__new__(Remote)
    remote._replica = type("", (), {"start": Handle()})
    with pytest.raises(ServerFailed, match=r"^own does not answer\.$"):
        asyncio.run(remote.start())


def test_a_ray_serve_that_listens_elsewhere_is_one_sentence():
    pytest.importorskip("starlette")
    from farm.serve import expect_open

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        expect_open("127.0.0.1", port)
    with pytest.raises(FarmError, match=f"does not listen on 127.0.0.1:{port}: .* `serve shut"):
        expect_open("127.0.0.1", port)
