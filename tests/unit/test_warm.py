"""A server forked from a warm Python is a process of its own, as if started in the plain way."""

import os
import signal
import subprocess
import sys
import time

import pytest
from support.warm import Forked, WarmPython

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks on Linux only")
SCRIPT = """
import json, os, sys
leads = os.getpgrp() == os.getpid()
print(json.dumps([sys.argv[1:], os.getcwd(), os.environ["HEADROOM_TEST_WORD"], leads]))
{then}
"""


@pytest.fixture
def warm():
    python = WarmPython(modules=["json"])
    yield python
    python.stop()


@pytest.fixture
def begin(warm, tmp_path):
    def begin(then="", word="one", **changed):
        script = tmp_path / "script.py"
        script.write_text(SCRIPT.format(then=then))
        env = {**os.environ, "HEADROOM_TEST_WORD": word, **changed}
        with (tmp_path / "log").open("wb") as log:
            return warm.start([sys.executable, str(script), "--port", "7"], cwd=tmp_path, env=env,
                              output=log)

    return begin


def test_a_forked_process_has_its_own_arguments_folder_environment_group_and_log(begin, tmp_path):
    for word in ("one", "two"):
        process = begin(word=word)
        assert isinstance(process, Forked) and process.wait(20) == 0
        expected = f'[["--port", "7"], "{tmp_path}", "{word}", true]\n'
        assert (tmp_path / "log").read_text() == expected


def test_its_exit_code_is_told_and_a_signal_as_a_negative_number(begin):
    assert begin("sys.exit(3)").wait(20) == 3
    process = begin("import time; time.sleep(60)")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)
    assert process.poll() is None
    process.kill()
    assert process.wait(20) == -signal.SIGKILL == process.poll()


def test_an_error_ends_it_with_its_traceback_and_the_warm_python_goes_on(begin, tmp_path):
    assert begin("raise ValueError('this')").wait(20) == 1
    assert "ValueError: this" in (tmp_path / "log").read_text()
    assert begin().wait(20) == 0


def test_it_ends_with_the_warm_python(begin, warm):
    process = begin("import time; time.sleep(60)")
    warm.stop()
    deadline = time.monotonic() + 20
    while os.path.exists(f"/proc/{process.pid}/exe") and time.monotonic() < deadline:
        os.sched_yield()
    assert not os.path.exists(f"/proc/{process.pid}/exe")


def test_another_environment_or_python_is_started_in_the_plain_way(begin, warm, tmp_path):
    begin().wait(20)
    other = begin(OTHER_LIBRARY="1")
    assert isinstance(other, subprocess.Popen) and other.wait(20) == 0
    with (tmp_path / "log").open("wb") as log:
        other = warm.start(["/bin/true", "x"], cwd=tmp_path, env=dict(os.environ), output=log)
    assert isinstance(other, subprocess.Popen) and other.wait(20) == 0
