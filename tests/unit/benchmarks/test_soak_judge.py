"""How the soak judges: slopes, logs, and failures that it must not excuse."""

import importlib
import json
import random
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
ROWS = list(range(0, 500, 25))


@pytest.fixture
def judging(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("soak_judge")


@pytest.fixture
def prompts(judging):
    return importlib.import_module("soak_prompts")


@pytest.fixture
def finished(judging, prompts):
    """A prompt that failed: `finished(what, message, frames, **fault)`."""

    def make(what, message, frames=(), node="KSampler", disk=False, **fault):
        failure = {"node_type": node, "exception_message": message, "exception_type": "Error",
                   "traceback": list(frames)}
        status = {"status_str": "error", "messages": [["execution_error", failure]]}
        soaked = prompts.build(what, 1, "tag")
        whole = {"kind": "oom", "times": 1, "failed": 0, **fault}
        return judging.Done(what, soaked, {"status": status}, {}, whole, disk)

    return make


def test_noise_around_a_level_is_flat_and_a_leak_in_the_noise_is_not(judging):
    noise = random.Random(4)
    level = [800 + noise.gauss(0, 3) for _ in ROWS]
    leak = [value + row * 0.05 for value, row in zip(level, ROWS, strict=True)]
    assert judging.slope(ROWS, level).is_flat
    found = judging.slope(ROWS, leak)
    assert not found.is_flat and found.per_hundred == pytest.approx(5, abs=2)


def test_the_uncertainty_of_a_slope_is_95_percent_by_students_t(judging):
    # Of 5 points: the slope is 0.6, its standard error sqrt(2.4 / 3 / 10), t for 3 is 3.1824.
    found = judging.slope([1, 2, 3, 4, 5], [2, 4, 5, 4, 5])
    assert found.per_hundred == pytest.approx(60)
    assert found.uncertainty == pytest.approx(100 * 3.1824 * 0.08**0.5, rel=1e-4)


def test_a_traceback_outside_of_a_failed_node_is_a_problem(judging):
    node = "!!! Exception during processing !!! no\nTraceback (most recent call last):\n  x\n"
    loose = 'Traceback (most recent call last):\n  File "custom_nodes/headroom/a.py"\n'
    assert judging.log_problems(node + "Prompt executed in 1.0 seconds\n") == []
    assert len(judging.log_problems(node + "Prompt executed in 1.0 seconds\n" + loose)) == 1
    assert len(judging.log_problems(node + "Error handling request\n")) == 1
    assert judging.log_problems(loose + "OSError: known", ["OSError: known"]) == []


def test_a_frame_of_the_guard_is_known_by_the_folder_that_it_lies_in(judging):
    folder = judging.GUARD_FRAME.removeprefix(judging.PACK_FRAME)
    assert (BENCHMARKS.parent / folder / "recover.py").is_file()


def test_failures_are_excused_by_what_was_injected_and_by_nothing_else(judging, finished):
    guard = f"File {judging.GUARD_FRAME}recover.py"
    excused = [
        finished("unguarded", "out of memory", failed=1),
        finished("picture", "illegal", [guard], failed=1, kind="illegal_access"),
        finished("picture", "gave up", [guard], failed=9, times=judging.PERSISTENT),
        finished("picture", "schedule", ["File comfy/samplers.py"], failed=1),
        finished("picture", "after 2 attempts the call", [guard], failed=3, times=3),
        finished("offload_to_disk", "Offload Model could not write", disk=True,
                 node="HeadroomOffloadModel"),
    ]
    blamed = [
        finished("unguarded", "out of memory"),
        finished("picture", "out of memory", [guard], failed=1),
        finished("picture", "after 2 attempts the call", [guard], failed=2, times=2),
        finished("offload_to_disk", "Offload Model could not write", node="HeadroomOffloadModel"),
        finished("offload_to_disk", "[Errno 27]", disk=True, node="HeadroomOffloadModel"),
    ]
    assert all(judging.why_failed(done) for done in excused)
    assert not any(judging.why_failed(done) for done in blamed)


def test_results_are_compared_bit_for_bit_and_within_a_thousandth_after_a_split(
    judging, finished, tmp_path
):
    numpy = pytest.importorskip("numpy")
    values = numpy.linspace(0, 1, 11)
    arrays = {"a": values, "near": values + 5e-4, "far": values + 0.1, "tiled": values + 0.2}
    for name, array in arrays.items():
        numpy.save(tmp_path / f"{name}.npy", array)
    reference = judging.Reference([["a"], ["a"]], 1, [["a"], ["tiled"]])
    judge = judging.Judge({("picture", 1): reference}, tmp_path)

    def word(name, *actions, latent=None):
        done = finished("picture", "", failed=1)
        texts = [latent or name, name]
        outputs = {node: {"text": [text]}
                   for node, text in zip(done.soaked.kept, texts, strict=True)}
        done.entry = {"status": {"status_str": "success", "messages": []}, "outputs": outputs}
        done.record = {"oom": [{"action": action} for action in actions]}
        return judge.judge(done)

    assert word("a") == "identical after recovery"
    assert word("near", "split the batch of 2") == "within a thousandth after a split"
    assert word("tiled", "computed in tiles of 8", latent="a").startswith("identical to ComfyUI")
    assert judge.problems == []
    assert word("near").startswith("other bits")
    assert word("far", "split the batch of 2").startswith("wrong")
    assert word("tiled", latent="a").startswith("wrong")
    assert word("tiled", "computed in tiles of 8").startswith("wrong")  # no latent is in tiles
    assert len(judge.problems) == 4 and json.dumps(judge.by_kind)
