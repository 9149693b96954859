"""`farm run` as a process, with servers of its own that compute nothing."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs ray[serve]: pip install -r farm/requirements.txt")

from support.doors import servers_in  # noqa: E402

import fake_comfy  # noqa: E402
from farm import cli  # noqa: E402
from tools.waiting import LONGEST_SECONDS, wait_until  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
SIZES_MIB = {"small": 500, "large": 4000}


def prompts():
    """Sixty in three sizes; a sixth needs the large one."""
    return [{"1": {"class_type": "Fake", "inputs": {
        "mib": (100, 400, 3000)[0 if n % 2 else n // 2 % 3], "seed": n, "seconds": 0.05,
        "filename_prefix": f"f{n}"}}} for n in range(60)]


@pytest.fixture
def farm(tmp_path):
    """Starts the command on a folder of its own."""
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, prompts())), encoding="utf-8")
    command = [sys.executable, fake_comfy.__file__, "--port", "{port}", "--mib"]
    entries = [{"name": name, "command": [*command, str(mib)], "folder": str(tmp_path), "gpus": 0}
               for name, mib in SIZES_MIB.items()]
    (tmp_path / "servers.json").write_text(json.dumps(entries), encoding="utf-8")
    words = ["run", str(tmp_path / "p.jsonl"), "--servers", str(tmp_path / "servers.json"),
             "--results", str(tmp_path / "results"), "--after-oom", "move",
             "--silent-seconds", "5"]
    started = []

    def start():
        with (tmp_path / "log").open("ab") as log:
            started.append(subprocess.Popen([sys.executable, "-m", "farm", *words], cwd=ROOT,
                                            stdout=log, stderr=log))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def results_of(folder):
    return [json.loads(path.read_text()) for path in folder.glob("results/*/result.json")]


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_all_prompts_are_finished_once_though_a_server_dies_one_hangs_and_the_head_is_killed(
    farm, tmp_path,
):
    head = farm()
    wait_until(lambda: len(results_of(tmp_path)) >= 5)
    for process in servers_in(tmp_path, SIZES_MIB["small"]):
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: len(results_of(tmp_path)) >= 20)
    for process in servers_in(tmp_path, SIZES_MIB["large"]):
        process.send_signal(signal.SIGSTOP)
    wait_until(lambda: len(results_of(tmp_path)) >= 30)
    head.kill()
    head.wait()
    wait_until(lambda: not servers_in(tmp_path))
    assert len(results_of(tmp_path)) < len(prompts())
    assert farm().wait(LONGEST_SECONDS) == 0, (tmp_path / "log").read_text()[-3000:]
    found = results_of(tmp_path)
    names = [file["name"] for one in found for file in one["files"]]
    assert sorted(names) == sorted(f"f{n}_00001_.txt" for n in range(60))
    large = [prompt["1"]["inputs"] for prompt in prompts() if prompt["1"]["inputs"]["mib"] == 3000]
    for inputs in large:
        [one] = [one for one in found
                 if one["files"][0]["name"].startswith(f"{inputs['filename_prefix']}_")]
        assert one["server"] == "large"
    wait_until(lambda: not servers_in(tmp_path))


@pytest.fixture
def odd_farm(tmp_path, monkeypatch):
    """Runs a batch at an address where a proxy's pages answer `times` in a row on one path."""
    monkeypatch.setattr("farm.client.LOOK_SECONDS", 0.05)
    (tmp_path / "p.json").write_text('{"1": {"class_type": "Fake", "inputs": {}}}')
    comfy, queue = fake_comfy.FakeComfy(), []

    def run(odd_path, odd_status, times, silent="60"):
        left = [times]

        def answer(path, query, body):
            if path.startswith(odd_path) and left[0]:
                left[0] -= 1
                return odd_status, "<html>"
            if path.startswith("/history/"):
                return 200, {one: {"outputs": {}, "status": {"messages": []}} for one in queue}
            return {"/farm": (200, {"remaining": 0, "servers": []}), "/queue": (200, {}),
                    "/jobs": (200, {"jobs": [{"id": one} for one in queue]})}.get(path, (404, {}))

        def accept(body):
            if left[0] and odd_path == "/prompt":
                return answer("/prompt", {}, body)
            queue[:] = [body["prompt_id"]]
            return 200, {}

        comfy.answer, comfy.queue = answer, accept
        return cli.main(["run", str(tmp_path / "p.json"), "--farm", comfy.url, "--results",
                         str(tmp_path / "results"), "--silent-seconds", silent])

    yield run
    comfy.stop()


@pytest.mark.parametrize("status", [502, 404, 200])
@pytest.mark.parametrize("path", ["/farm", "/prompt", "/jobs", "/history"])
def test_pages_of_a_proxy_are_waited_out_and_at_last_are_one_sentence(
    odd_farm, tmp_path, capsys, path, status,
):
    if path == "/farm" and status != 502:  # at a wrong address nobody waits
        assert odd_farm(path, status, 10**9) == cli.WRONG
        assert "is no farm that can be used: GET /farm answered" in capsys.readouterr().err
        return
    assert odd_farm(path, status, 10**9, "0.2") == cli.WRONG
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("Error: The farm cannot be asked: ") and f"answered {status}" in line
    assert results_of(tmp_path) == []
    assert odd_farm(path, status, 2) == 0 and len(results_of(tmp_path)) == 1
