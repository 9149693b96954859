"""Scripts on the fake CUDA driver."""

import pytest
from support.cuda_scripts import script_runner


@pytest.fixture
def run(tmp_path):
    return script_runner(tmp_path)
