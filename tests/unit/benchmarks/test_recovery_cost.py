"""The benchmark of what a recovery costs, on a stand-in device that only compares sizes."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from tools.bench_rows import rows_of
from tools.bench_run import arguments, load

MIB = 1 << 20
ROW_MIB = 100  # of a batch; stock fits with all of it, OOM Guard with one row


class Dry:
    """A server on which a prompt needs 100 MiB for each image of its batch."""

    def __init__(self):
        self.driver = self.client = self
        self.mib, self.guards, self.prompts = 1 << 20, set(), {}
        self.counts = {"htod_bytes": 0, "launches": 0, "library_calls": 0, "refused": 0}
        self.lessons = set()

    def device(self):
        return SimpleNamespace(**self.counts)

    def empty(self, mib):
        self.mib = mib

    def queue(self, prompt):
        name = str(len(self.prompts))
        nodes = {node["class_type"]: node["inputs"] for node in prompt.values()}
        batch = nodes["EmptyLatentImage"]["batch_size"]
        guard = nodes.get("HeadroomOOMGuard")
        need, tries = batch * ROW_MIB, []
        if guard and need > self.mib:
            if guard["max_attempts"] not in self.lessons:
                tries = [{"recovered": True, "action": "split"}]
            self.lessons.add(guard["max_attempts"])
            need = ROW_MIB
        self.counts["launches"] += 100 * (4 if guard and need < batch * ROW_MIB else 1)
        self.counts["htod_bytes"] += 10 * MIB
        self.prompts[name] = (need, tries)
        return name

    def wait(self, name, timeout):
        if self.prompts[name][0] <= self.mib:
            return {"status": {"status_str": "success"}}
        return {"status": {"status_str": "error", "messages": [["execution_error", {
            "node_id": "1", "node_type": "KSampler", "exception_type": "RuntimeError",
            "exception_message": "VRAM grow failed: 75890688 bytes"}]]}}

    def get_json(self, path):
        need, tries = self.prompts[path.rpartition("/")[2]]
        return {"oom": tries} if path.startswith("/headroom") else [{"peak_bytes": need * MIB}]


@pytest.fixture
def result():
    """What the benchmark finds there for a batch of 8 at 100 and at 60 %."""
    bench = load("recovery_cost")
    words = ["--comfyui", "x", "--percent", "100", "60", "--classes", "SD1.5"]
    cost = bench.Cost("SD1.5", arguments(bench, words))
    dry = Dry()

    def server(mib):
        dry.empty(mib)
        return nullcontext(dry)

    return cost.on(server)


def test_the_need_of_stock_is_found_to_eight_percent(result):
    assert 800 <= result["need_mib"] <= 864


def test_failed_calls_are_those_of_the_guard_and_those_that_end_a_prompt(result):
    assert [one["failed_calls"] for one in result["shares"]["100 %"]["guarded"]] == [0, 0]
    assert [one["failed_calls"] for one in result["shares"]["60 %"]["guarded"]] == [1, 0]
    assert [one["failed_in"] for one in result["shares"]["60 %"]["stock"]] == ["KSampler"]


def test_by_hand_the_batch_runs_in_as_few_parts_as_fit(result):
    by_hand = result["shares"]["60 %"]["by_hand"]
    assert (by_hand["parts"], by_hand["launches"], by_hand["copied_mib"]) == (2, 200, 20)
    assert result["shares"]["60 %"]["of_by_hand"] == {"launches": 2.0, "copied_mib": 0.5}


def test_the_table_tells_both_prompts_and_the_ratio_to_the_best_by_hand(result):
    (line,) = rows_of("recovery_cost", {"classes": {"SD1.5": result}}, lambda one, _: one)
    assert "60 %: 1, 0; 0; 0.50, 2.00" in line[1]


def test_a_share_tells_its_commit(result):
    assert result["shares"]["60 %"]["commit"]
