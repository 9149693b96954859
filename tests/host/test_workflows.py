"""The bundled workflows in real ComfyUIs, and what those runs show.

They are small here, and run twice on PyTorch's own allocators (the fake CUDA driver); at their own
sizes they are in test_fit.py. Model files have the names and classes that each workflow asks for,
with random weights. What a small machine cannot do is named in `tools/workflow_trials.py`: fewer
steps and pixels, and a small text encoder in place of those whose class has no small form.

With two ComfyUI trees at hand half of the workflows run on each; HEADROOM_EVERY_WORLD=1 runs all of
them in every world of `support.worlds`.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.prompts import untitled
from support.trials import CAPACITY_MIB, LIMIT_S, trial_server
from support.worlds import EVERYWHERE, HAS_BOTH, WORLDS

from tools import figures, results, workflow_trials
from tools.bench_device import plain_flags
from tools.client import node_texts
from tools.device import Device
from tools.lab import PACKS
from tools.node_info import node_infos
from tools.ui_prompt import api_prompt
from tools.workflows import WORKFLOWS, published_prompt, workflow

pytestmark = pytest.mark.host

ROOT = Path(__file__).resolve().parents[2]
FAKE = list(WORLDS) if EVERYWHERE else ["oldest, default", "newest, default"]
ON_FAKE = [(world, name) for index, world in enumerate(FAKE)
           for place, name in enumerate(WORKFLOWS)
           if EVERYWHERE or not HAS_BOTH or place % 2 == index]


def cases(*names):
    """(world, workflow) of these workflows, as pytest takes them."""
    return pytest.mark.parametrize(("world", "name"), [
        pytest.param(world, name, marks=pytest.mark.fakecuda) for world, name in ON_FAKE
        if name in names])


@pytest.fixture(scope="session")
def models_dir():
    from tools.workflow_models import make_workflow_models

    return make_workflow_models()


@pytest.fixture(scope="module")
def start(serve):
    """A factory of servers on a simulated GPU with room, by ComfyUI's flags."""

    def start(*flags):
        # Only the shapes decide whether it fits; the recorded runs computed all values.
        return trial_server(serve, *flags, packs=["headroom_shapes_only"])

    return start


@pytest.fixture(scope="module")
def server(start):
    return start()


@pytest.fixture(scope="module")
def infos(server):
    return node_infos(server.client().get_json("/object_info"))


@dataclass
class Run:
    """One run of a workflow: its entry in the history, its record, and what was there after it.

    `loaded` are the models on the device; `left_bytes`, `used_mib` and `still_loaded` (in bytes of
    the device's own count, as Headroom tells, and models) are those after a purge.
    """

    entry: dict
    record: dict
    loaded: list
    left_bytes: int
    used_mib: float
    still_loaded: list


def run_once(device, prompt):
    """Run a prompt and purge."""
    entry = device.client.run(prompt, timeout=LIMIT_S)
    record = device.client.get_json(f"/headroom/runs/{entry['prompt_id']}")
    loaded = device.client.get_json("/headroom/memory")["models"]
    device.unload()
    device.client.post_when_idle("/headroom/purge", {})
    told = device.client.get_json("/headroom/memory")
    return Run(entry, record, loaded, device.driver.device().used_bytes,
               told["devices"][0]["used_mib"], told["models"])


def start_fake(request, *flags, path="", **settings):
    """A server on the fake driver with room; `path` is a folder with other packages."""
    env = {**workflow_trials.ENVIRONMENT, **({"PYTHONPATH": path} if path else {})}
    device = request.getfixturevalue("fake")(
        CAPACITY_MIB, *flags, packs=[PACKS / "headroom_small_encoders"], env=env,
        models_dir=request.getfixturevalue("models_dir"), **settings)
    workflow_trials.write_example_picture(device.server.base_dir / "input")
    return device


def on_fake(request, world, name):
    """The workflow with small pictures, twice, in a world of the fake driver."""
    chosen = WORLDS[world]
    tree = request.getfixturevalue("newest_comfyui") if chosen.newest else None
    device = start_fake(request, *chosen.flags, path=chosen.aimdo, comfyui=tree, **chosen.settings)
    prompt = workflow_trials.small_prompt(name)
    return prompt, [run_once(device, prompt) for _ in range(2)]


@pytest.fixture(scope="module")
def done():
    """What ran already, by world and workflow."""
    return {}


@pytest.fixture
def ran(request, done, world, name):
    """The prompt of a workflow and its runs in a world; it runs for the first test that asks."""
    if (world, name) not in done:
        done[world, name] = on_fake(request, world, name)
    return done[world, name]


@cases(*WORKFLOWS)
def test_every_node_of_the_workflow_runs_and_none_runs_out_of_memory(ran):
    prompt, runs = ran
    assert {node["node_id"] for node in runs[0].record["nodes"]} == set(prompt)
    for run in runs:
        assert run.record["status"] == "success" and run.record["oom"] == []


@cases(*WORKFLOWS)
def test_after_a_purge_no_model_and_no_byte_more_than_before_is_left_and_the_answer_says_so(ran):
    _, runs = ran
    for run, before in zip(runs, [runs[0], *runs], strict=False):
        assert run.still_loaded == [] and run.left_bytes <= before.left_bytes
        assert run.used_mib == pytest.approx(run.left_bytes / 2**20, abs=0.001)


@cases("diffsynth_prompt_loop", "diffusers_encode_only")
def test_after_prompts_are_encoded_nothing_of_the_encoder_is_on_the_gpu(ran):
    for run in ran[1]:
        assert [model for model in run.loaded if model["kind"] == "text encoder"] == []
    texts = node_texts(ran[1][0].entry).values()
    assert any(re.search("encoder released: (T5|Qwen)", text) for text in texts)


@cases("diffusers_encode_only")
def test_prompts_encoded_once_need_no_encoder_the_next_time(ran):
    first, second = ({node["class_type"] for node in run.record["nodes"] if not node["cached"]}
                     for run in ran[1])
    assert "SmallTextEncoder" in first
    assert "HeadroomEncodeToCPU" in second and "SmallTextEncoder" not in second


# InfiniteYou's takes as long as the three others.
SEARCHED = [pytest.param(name, marks=pytest.mark.fakecuda) if case.by_blocks else name
            for name, case in workflow_trials.CASES.items()
            if case.searched and (EVERYWHERE or name != "infiniteyou_720p_bf16")]


@pytest.fixture(scope="module")
def recorded(comfyui):
    """The recorded figures of a workflow on this ComfyUI, or a skip where there are none."""
    known = results.of(figures.PART, comfyui)

    def of(name):
        return known.get(name) or pytest.skip(f"no recorded figures of {name} on this ComfyUI")

    return of


def outcome(words):
    """"completed", or the node and the class of its error: the bytes in the words vary."""
    return words.split(": ")[:2]


@pytest.mark.parametrize("name", SEARCHED)
def test_at_the_recorded_size_of_gpu_both_end_as_recorded(request, comfyui, start, recorded, name):
    same, case = recorded(name)["same_capacity"], workflow_trials.CASES[name]
    if case.by_blocks:
        flags = [*plain_flags(comfyui), *case.flags]
        fake = start_fake(request, *flags, allocator="native")
        device = Device(fake.client, driver=fake.driver)
    else:
        device = Device(start(*case.flags).client())
    prompts = workflow_trials.both_prompts(name)
    assert device.words(prompts["headroom"], same["capacity_mib"]) == "completed"
    if same["stock"] != "completed":
        words = device.words(prompts["stock"], same["capacity_mib"])
        assert outcome(words) == outcome(same["stock"])
    device.empty()


def test_the_prompt_loop_fills_the_gpu_without_our_nodes_and_not_with_them(start, recorded):
    name = "diffsynth_prompt_loop"
    loop = recorded(name)["loop"]
    device = Device(start("--gpu-only").client())
    most = loop["prompts"][-1]
    prompts = workflow_trials.both_prompts(name, **workflow_trials.prompt_lines(name, most))
    assert device.words(prompts["headroom"], loop["capacity_mib"]) == "completed"
    words = device.words(prompts["stock"], loop["capacity_mib"])
    assert outcome(words) == outcome(loop[f"stock_{most}_prompts"])
    assert outcome(words)[1] == "OutOfMemoryError"


@pytest.mark.parametrize("name", WORKFLOWS)
def test_the_workflow_on_the_canvas_is_the_prompt_for_the_server(infos, name):
    assert untitled(api_prompt(workflow(name), infos)) == untitled(published_prompt(name))


def test_comfyui_lists_every_workflow_as_a_template(server):
    templates = server.client().get_json("/workflow_templates")
    assert sorted(templates["headroom"]) == sorted(WORKFLOWS)


def test_the_command_line_runs_a_workflow_file_and_prints_the_memory_table(server):
    done = dev_run(server, "start_here", "KSampler.steps=1", "Size Sorter.sizes=64x64\n96x64")
    assert done.returncode == 0, done.stderr
    assert "VRAM before" in done.stdout and "Saved: headroom/start_here_" in done.stdout


def test_the_command_line_fails_with_the_servers_words(server):
    done = dev_run(server, "start_here", "Load Checkpoint.ckpt_name=missing.safetensors")
    assert done.returncode == 1
    assert "ckpt_name: 'missing.safetensors' not in" in done.stderr


def dev_run(server, name, *settings):
    words = [word for setting in settings for word in ("--set", setting)]
    return subprocess.run(
        [sys.executable, "dev.py", "run", f"workflows/{name}.json", "--server", server.url, *words],
        cwd=ROOT, capture_output=True, text=True, encoding="utf-8",
    )
