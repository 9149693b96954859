"""Load the packages by file location, as ComfyUI does, and start real servers for the tests.

The repository root never stays on `sys.path`: an absolute import of our own modules, or our
`nodes/` hiding ComfyUI's module of the same name, must fail here as it would for a user.
"""

import gc
import importlib.util
import os
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SIMULATED_MIB = 8192  # what a simulated GPU starts with, before it gets the size that a test asks
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]
# Files with servers that take a minute or more on two cores.
LONG = ("test_moved_host", "test_oom_guard", "test_advice", "test_packs", "test_fake_cuda_bytes",
        "test_workflows", "test_oom_guard_parts", "test_fit", "test_same_facts", "test_rescue",
        "test_templates")
# Unit tests that wait for Ray most of their time: others compute meanwhile, and not at the end.
WAITING = tuple(f"unit/farm/test_{name}.py" for name in ("serve", "replicas", "client", "cli_run"))
_pools: list[Any] = []  # of running servers, in this process


def _load_package(name: str, folder: Path) -> ModuleType | None:
    """Import the package in `folder` under `name`, whatever the folder is called."""
    init = folder / "__init__.py"
    if name in sys.modules or not init.exists():
        return sys.modules.get(name)
    spec = importlib.util.spec_from_file_location(
        name, init, submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


for _name, _folder in (
    ("headroom", ROOT / "headroom"),
    ("tools", ROOT / "tools"),
    ("farm", ROOT / "farm"),
    ("simgpu", ROOT / "lab" / "simgpu"),
    ("fakecuda", ROOT / "lab" / "fakecuda"),
    ("support", ROOT / "tests" / "support"),
):
    _load_package(_name, _folder)

from tools.device import GpuServer  # noqa: E402 - only now there is a `tools`
from tools.lab import REAL_GPU_PACK, fake_comfy  # noqa: E402

fake_comfy()  # so that tests can import it


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the browser tests come first, the files with servers next, and unit tests last.

    The long files at the beginning and the short ones at the end let all test processes end
    together.
    """
    def place(item: pytest.Item) -> int:
        name = item.path.relative_to(ROOT / "tests").as_posix()
        if name.startswith("unit/") and name not in WAITING:
            return 3
        return 0 if name.startswith("browser/") else 1 if item.path.stem in LONG else 2

    items.sort(key=place)  # stable: within a file nothing changes


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give all browser tests to one test process: they share a Chromium, its cache and servers.

    Each start of these takes 10 s of CPU time, and processes that draw pages at once wait for each
    other.
    """
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            of_browser = nodeid.startswith("tests/browser/")
            return "browser" if of_browser else str(super()._split_scope(nodeid))

    return Scheduling(config, log)


@pytest.fixture(scope="module", autouse=True)
def quick_collections(request) -> None:
    """Leave what is there when a file begins out of the garbage collections of its tests.

    A recovery collects several times. Each time would walk over all that is imported and collected:
    half a second, for hundreds of tests. Unit tests, which come last, need no server any more.
    """
    if ROOT / "tests" / "unit" in request.path.parents:
        for pool in _pools:
            pool.stop()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def comfyui() -> Path:
    """The ComfyUI tree under test, or a skip that says how to get one."""
    given = os.environ.get("COMFYUI_PATH")
    if not given:
        pytest.skip("needs a ComfyUI: run `python dev.py test`, or set COMFYUI_PATH")
    path = Path(given)
    if not (path / "main.py").exists():
        pytest.skip(f"COMFYUI_PATH={given} holds no main.py")
    return path


@pytest.fixture(scope="session")
def newest_comfyui(comfyui) -> Path:
    """A ComfyUI with dynamic VRAM: HEADROOM_NEWEST_COMFYUI, or the tree under test if it has it."""
    from tools.server import known_flags

    path = Path(os.environ.get("HEADROOM_NEWEST_COMFYUI") or comfyui)
    if "--disable-dynamic-vram" not in known_flags(path):
        pytest.skip("needs a ComfyUI with dynamic VRAM: set HEADROOM_NEWEST_COMFYUI to its folder")
    return path


@pytest.fixture(scope="session")
def tree_with(request, comfyui):
    """A function that gives the tree under test, else the newest, if it knows a flag; or a skip."""
    from tools.server import known_flags

    def find(flag: str) -> Path:
        if flag in known_flags(comfyui):
            return comfyui
        newest = request.getfixturevalue("newest_comfyui")
        return newest if flag in known_flags(newest) else pytest.skip(f"no ComfyUI has {flag}")

    return find


@pytest.fixture(scope="session")
def models_dir(comfyui) -> Path:
    """A models folder with the small random-weight files that the host tests load."""
    from tools import models

    folder = models.models_folder()
    models.make_models(folder, comfyui=comfyui)
    return folder


@pytest.fixture(scope="session")
def servers(comfyui, tmp_path_factory):
    """The servers of this process, which modules share; see `support.servers`."""
    from support.servers import Servers, frontend_words

    pool = Servers(comfyui, tmp_path_factory.mktemp, frontend_words(os.environ))
    _pools.append(pool)
    yield pool
    pool.stop()


@pytest.fixture(scope="module")
def serve(servers, models_dir):
    """A factory of running servers: equal arguments share one, put back for each test module.

    The test packs of `support.servers.COMMON` are always there, and the module's `models_dir`.
    """
    servers.next_module()
    return partial(servers.get, models_dir=models_dir)


@pytest.fixture(scope="module")
def cpu_server(serve):
    """A ComfyUI server on the CPU with this pack."""
    return serve()


@pytest.fixture
def sim(serve):
    """A factory of servers on a simulated GPU: `sim(capacity_mib, *comfy_args, **options)`.

    Equal arguments but for the capacity share one server; every test gets it with its own capacity,
    no other process and no fault. Models of earlier tests of the module stay loaded: see
    `Device.unload`.
    """
    def start(capacity_mib: int, *args: str, **options) -> GpuServer:
        server = serve(*args, simulate_mib=SIMULATED_MIB, **options)
        return GpuServer(server, capacity_mib).restore()

    return start


@pytest.fixture
def fake(serve):
    """A factory of servers on fake CUDA devices: `fake(capacity_mib, *comfy_args, **settings)`.

    The settings are those of `fakecuda.FakeCuda`; `packs`, `env`, `comfyui` (another tree) and
    `models_dir` are those of a server. Equal arguments share one server; a test gets it with its
    own capacity, no other process and nothing that fails.
    """
    from fakecuda import COPIED_KIB, FakeCuda, why_not

    if reason := why_not():
        pytest.skip(reason)

    def start(capacity_mib: int, *args, packs=(), **settings):
        named = ("env", "comfyui", "models_dir")
        options = {name: settings.pop(name) for name in named if name in settings}
        settings.setdefault("copy_at_most_kib", COPIED_KIB)
        words = FakeCuda(capacity_mib=capacity_mib, **settings).words()
        server = serve(*args, fake_cuda=words, packs=(*packs, REAL_GPU_PACK), **options)
        return GpuServer(server, capacity_mib).restore()

    return start
