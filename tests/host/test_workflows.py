"""The bundled workflows in a real ComfyUI on a simulated GPU, with their arithmetic unless said.

Model files have the names and classes that each workflow asks for, with random weights. What a
small machine cannot do is named in `tools/workflow_trials.py`: fewer steps and pixels, and a
small text encoder in place of those whose class has no small form. At their own sizes they run in
`test_workflows_unmodified.py`.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from support.trials import CAPACITY_MIB, LIMIT_S, trial_server

from tools import figures, results, workflow_trials
from tools.bench_device import Device
from tools.client import cached_nodes, node_texts
from tools.node_info import node_infos
from tools.ui_prompt import api_prompt
from tools.workflows import WORKFLOWS, published_prompt, workflow

pytestmark = pytest.mark.host

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def models_dir():
    from tools.workflow_models import make_workflow_models

    return make_workflow_models()


@pytest.fixture(scope="module")
def start(serve):
    """A factory of servers on a simulated GPU with room, by ComfyUI's flags."""

    def start(*flags, **options):
        return trial_server(serve, *flags, **options)

    return start


@pytest.fixture(scope="module")
def server(start):
    return start()


@pytest.fixture
def client(server):
    return server.client()


@pytest.fixture(scope="module")
def infos(server):
    return node_infos(server.client().get_json("/object_info"))


def run(client, name, **changes):
    return client.run(workflow_trials.small_prompt(name, **changes), timeout=LIMIT_S)


def record(client, entry):
    return client.get_json(f"/headroom/runs/{entry['prompt_id']}")


def allocated(client):
    status, figures = client.post_json("/simgpu/collect", {})
    assert status == 200
    return figures["allocated_bytes"]


# Whether it fits depends on the shapes alone, and was recorded with the arithmetic.
SHAPES_ONLY = ("headroom_shapes_only",)
SEARCHED = [name for name, case in workflow_trials.CASES.items() if case.searched]


@pytest.fixture(scope="module")
def recorded(comfyui):
    """The recorded figures of a workflow on this ComfyUI, or a skip where there are none."""
    known = figures.recorded(results.comfyui_version(comfyui))

    def of(name):
        return known.get(name) or pytest.skip(f"no recorded figures of {name} on this ComfyUI")

    return of


@pytest.fixture
def device(client):
    device = Device(client)
    yield device
    device.empty()


def outcome(words):
    """"completed", or the node and the class of its error: the bytes in the words vary."""
    return words.split(": ")[:2]


@pytest.mark.parametrize("name", SEARCHED)
def test_at_the_recorded_size_of_gpu_both_end_as_recorded(start, recorded, name):
    same = recorded(name)["same_capacity"]
    flags = workflow_trials.CASES[name].flags
    device = Device(start(*flags, packs=SHAPES_ONLY).client())
    prompts = workflow_trials.both_prompts(name)
    assert device.words(prompts["headroom"], same["capacity_mib"]) == "completed"
    if same["stock"] != "completed":
        words = device.words(prompts["stock"], same["capacity_mib"])
        assert outcome(words) == outcome(same["stock"])
    device.empty()


def test_the_prompt_loop_fills_the_gpu_without_our_nodes_and_not_with_them(start, recorded):
    name = "diffsynth_prompt_loop"
    loop = recorded(name)["loop"]
    device = Device(start("--gpu-only", packs=SHAPES_ONLY).client())
    most = loop["prompts"][-1]
    prompts = workflow_trials.both_prompts(name, **workflow_trials.prompt_lines(name, most))
    assert device.words(prompts["headroom"], loop["capacity_mib"]) == "completed"
    assert outcome(device.words(prompts["stock"], loop["capacity_mib"])) == [
        "KSampler", "OutOfMemoryError"
    ]


def test_without_our_nodes_the_encoder_stays_and_with_them_nothing_does(device):
    prompts = workflow_trials.both_prompts("diffusers_encode_only")
    device.words(prompts["stock"], CAPACITY_MIB)
    assert device.collect()["allocated_bytes"] > 0  # the published problem
    device.words(prompts["headroom"], CAPACITY_MIB)
    assert device.collect()["allocated_bytes"] == 0


@pytest.mark.parametrize("name", WORKFLOWS)
def test_the_workflow_on_the_canvas_is_the_prompt_for_the_server(infos, name):
    assert api_prompt(workflow(name), infos) == published_prompt(name)


def test_comfyui_lists_every_workflow_as_a_template(client):
    templates = client.get_json("/workflow_templates")
    assert sorted(templates["headroom"]) == sorted(WORKFLOWS)


def test_after_the_prompt_loop_nothing_of_the_encoder_is_on_the_gpu(client):
    entry = run(client, "diffsynth_prompt_loop", **{"KSampler.seed": 2, "Negative prompt.text": ""})
    assert "encoder released: T5Model" in node_texts(entry)["4"]
    loaded = client.get_json("/headroom/memory")["models"]
    assert [model["kind"] for model in loaded if model["kind"] == "text encoder"] == []


def test_prompts_encoded_once_need_no_encoder_the_next_time(client):
    run(client, "diffusers_encode_only")
    client.free()
    # ComfyUI acts on /free once its queue is empty: a quicker prompt still finds the nodes cached.
    entries = [run(client, "diffusers_encode_only") for _ in range(2)]
    nodes = {node["class_type"] for entry in entries
             for node in record(client, entry)["nodes"] if not node["cached"]}
    assert "HeadroomEncodeToCPU" in nodes and "SmallTextEncoder" not in nodes


def test_queue_after_queue_the_same_bytes_stay(client):
    left = []
    for seed in (11, 12, 13):
        entry = run(client, "sd_controlnet_switch", **{"KSampler.seed": seed})
        left.append(allocated(client))
    assert cached_nodes(entry) and left[1] == left[2]


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
