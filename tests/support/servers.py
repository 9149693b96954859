"""Real servers that the test modules of one process share, each put back as it began.

Starting a ComfyUI takes 6 s of CPU time, 1 s from a warm Python (see `support.warm`), so that a
server outlives its module: the next module that asks for an equal one gets it without models, node
cache, history, queue and files. Only the records of earlier runs stay, as on a user's server.
"""

import time
from pathlib import Path

from tools.graph import forget_everything
from tools.lab import PACKS
from tools.server import ComfyServer

from .warm import WarmPythons

TESTS_OWN = Path(__file__).resolve().parent.parent / "host" / "packs"
# Always there, so that modules with different ones share a server; none does anything by itself.
COMMON = (
    *(PACKS / f"headroom_{name}" for name in ("bench", "oom_probe", "probe", "probe_encoders",
                                              "small_encoders", "timed")),
    *(TESTS_OWN / f"headroom_{name}" for name in ("probe_cast", "probe_lists")),
    TESTS_OWN.parents[1] / "worlds" / "packs" / "headroom_world",
)
# The test models are so small that threads only get in each other's way.
ENVIRONMENT = {"OMP_NUM_THREADS": "1"}
MOST_WAITING = 1  # servers that no test of the current module uses; each takes 0.7 GiB of RAM
IDLE_S = 120.0
FRONTEND_VARIABLE = "HEADROOM_COMFYUI_FRONTEND"


def frontend_words(env):
    """The arguments for the frontend that the environment names: a folder with its wheel unpacked.

    Without it a server takes the one of its Python. FileNotFoundError when the folder holds none.
    """
    if not (given := env.get(FRONTEND_VARIABLE)):
        return ()
    root = Path(given).resolve() / "comfyui_frontend_package" / "static"
    if not (root / "index.html").is_file():
        raise FileNotFoundError(
            f"{FRONTEND_VARIABLE} has to name a folder with an unpacked comfyui-frontend-package "
            f"wheel, and there is no {root / 'index.html'}."
        )
    return ("--front-end-root", str(root))


class Servers:
    """Running servers: equal arguments give the same one. `new_folder` makes folders for them.

    `always` are arguments that every one of them gets.
    """

    def __init__(self, comfyui, new_folder, always):
        self._comfyui, self._new_folder, self._always = comfyui, new_folder, tuple(always)
        self._running = {}  # the one asked for last comes last
        self._of_this_module = set()
        self._warm = WarmPythons()
        self.start_process = self._warm.start  # for servers that are no part of the pool

    def next_module(self):
        """Another test module begins; on a real GPU it finds no server of an earlier one."""
        self._of_this_module.clear()
        for key in [key for key, server in self._running.items() if server.gpu]:
            self._running.pop(key).stop(grace_seconds=0)

    def get(self, *args, packs=(), env=None, comfyui=None, **options):
        """A running server, as it began when this module asks for it the first time.

        `comfyui` is another tree than the one under test.
        """
        tree = comfyui or self._comfyui
        own = sorted({str(path) for path in packs} - {str(path) for path in COMMON})
        options["env"] = {**ENVIRONMENT, **(env or {})}
        key = repr((tree, args, own, sorted(options.items(), key=str)))
        server = self._running.pop(key, None)
        if server is None:
            server = ComfyServer(
                tree, self._new_folder("comfyui"), args=(*self._always, *args),
                packs=[*COMMON, *map(Path, own)], start_with=self.start_process, **options,
            ).start()
        elif key not in self._of_this_module:
            put_back(server)
        self._running[key] = server
        self._of_this_module.add(key)
        self._stop_all_but(MOST_WAITING)
        return server

    def stop(self):
        """End all of them."""
        self._of_this_module.clear()
        self._stop_all_but(0)
        self._warm.stop()

    def _stop_all_but(self, most):
        """The plain ones, which most modules ask for, wait the longest."""
        waiting = [key for key in self._running if key not in self._of_this_module]
        waiting.sort(key=lambda key: not self._running[key].args)
        for key in waiting[: max(0, len(waiting) - most)]:
            self._running.pop(key).stop(grace_seconds=0)  # its folders are temporary


def put_back(server):
    """Leave nothing of earlier tests in a server; RuntimeError when it does not come to rest."""
    client = server.client()
    client.post_json("/queue", {"clear": True})
    deadline = time.monotonic() + IDLE_S
    while any(client.get_json("/queue").values()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"A prompt of an earlier module still runs on {server.url}.")
        client.interrupt()
        time.sleep(0.1)
    forget_everything(client)
    client.post_when_idle("/headroom/purge", {"free_ram": True})
    client.post_json("/history", {"clear": True})
    for folder in ("input", "output", "temp", "user", "models"):
        for path in [item for item in (server.base_dir / folder).rglob("*") if item.is_file()]:
            if path.name.startswith("comfyui.db"):
                continue  # the server holds it open
            path.unlink(missing_ok=True)
