"""ComfyUI's validation of prompts, without a server: see validator_main.py."""

import json
import subprocess
from pathlib import Path

from tools.server import ComfyServer

PROGRAM = Path(__file__).with_name("validator_main.py")
EVERY_FOLDER = "every_folder"


class Validator:
    """`object_info` of a ComfyUI tree with this pack, and the `errors` that it finds in prompts.

    `models` and `inputs` are names of files that it has: empty ones, in every folder of models
    and in that of inputs.
    """

    def __init__(self, comfyui, base, models=(), inputs=()):
        server = ComfyServer(comfyui, base)
        server.prepare_base()
        for name in inputs:
            _touch(base / "input" / name)
        for name in models:
            _touch(base / "models" / EVERY_FOLDER / name)
        python, *words = server.command("0")
        words.remove("--disable-api-nodes")
        self._log = (base / "validator.log").open("wb")
        self._process = subprocess.Popen(
            [python, str(PROGRAM), *words], cwd=base, env=server.environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, encoding="utf-8")
        self.object_info = self._answer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait()
        self._log.close()

    def errors(self, prompt):
        self._process.stdin.write(json.dumps(prompt) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"ComfyUI has ended; its log is {self._log.name}")
        return json.loads(line)


def _touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
