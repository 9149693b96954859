"""The bundled workflows as they are published, at their own sizes and numbers of pictures.

On the simulated GPU with the arithmetic left out (`simgpu.shapes`): every tensor is allocated and
freed as in a computed run. A sampler takes a few of its steps, which allocate what all of them
do; all took 88 s for the 16 pictures of SDXL. Model files have the names and classes that each
workflow asks for; encoders whose class has no small form are swapped (see
`tools/workflow_trials.py`). The pictures are not looked at here: `test_workflows.py` computes.
(EasyCache sees values that do not change, and leaves out more steps than it otherwise would.)
"""

import pytest
from support.trials import LIMIT_S, trial_server

from tools import workflow_trials
from tools.fit_steps import fewer_steps
from tools.workflow_models import make_workflow_models
from tools.workflows import WORKFLOWS

pytestmark = pytest.mark.host


@pytest.fixture(scope="session")
def models_dir():
    return make_workflow_models()


@pytest.fixture(scope="module")
def client(serve):
    return trial_server(serve, packs=["headroom_shapes_only"]).client()


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_node_of_the_workflow_runs_and_none_runs_out_of_memory(client, name):
    prompt = fewer_steps(workflow_trials.full_prompt(name))
    entry = client.run(prompt, timeout=LIMIT_S)
    record = client.get_json(f"/headroom/runs/{entry['prompt_id']}")
    assert record["status"] == "success" and record["oom"] == []
    assert {node["node_id"] for node in record["nodes"]} == set(prompt)
