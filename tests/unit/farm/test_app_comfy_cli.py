"""ComfyUI's own command line, as it is on PyPI, with a farm for its server."""

import json
import os
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette", reason="needs ray[serve]: pip install -r farm/requirements.txt")

from support.doors import OpenDoor, prompt  # noqa: E402

from fake_comfy import FakeComfy  # noqa: E402
from tools.cache import cache_home, process_lock  # noqa: E402
from tools.uv import interpreter, run_uv  # noqa: E402
from tools.waiting import wait_until  # noqa: E402

PACKAGE = "comfy-cli==1.23.0"


@pytest.fixture(scope="module")
def comfy():
    """Its program, in an environment of its own: it has other wishes than ours."""
    version = "{}.{}".format(*sys.version_info)
    folder = cache_home() / f"{PACKAGE.replace('==', '-')}-{version}"
    with process_lock(cache_home() / "locks" / f"{folder.name}.lock"):
        if not (folder / "headroom-complete").exists():
            run_uv(["venv", "--clear", "--python", sys.executable, folder], "making of comfy-cli's")
            run_uv(["pip", "install", "--python", interpreter(folder), PACKAGE], "installation")
            (folder / "headroom-complete").touch()
    return interpreter(folder).with_name("comfy")


def test_run_and_wait_ends_with_its_prompt(comfy, tmp_path):
    server = FakeComfy(1000)
    door = OpenDoor(tmp_path / "results", [server.url])
    try:
        wait_until(lambda: door.states() == ["idle"])
        (tmp_path / "workflow.json").write_text(json.dumps(prompt(seed=7)))
        where = urlsplit(door.url)
        done = subprocess.run(
            [comfy, "--skip-prompt", "run", "--wait", "--workflow", tmp_path / "workflow.json",
             "--host", where.hostname, "--port", str(where.port), "--timeout", "240"],
            env={**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
            capture_output=True, text=True,
        )
        told = json.loads(done.stdout)
        assert (done.returncode, told["error"]) == (0, None)
        assert told["data"]["status"] == "completed" and told["data"]["executed_node_ids"] == ["1"]
        assert list(door.get("/history")) == [told["data"]["prompt_id"]]
    finally:
        door.close()
        server.stop()
