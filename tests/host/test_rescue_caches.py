"""A rerun under every way in which ComfyUI keeps results."""

import pytest
from support.rescue import AT_ONCE, chain, failing, key, ran_in, run_and_rerun, told, written

from tools.graph import Graph, picture
from tools.waiting import wait_until

pytestmark = pytest.mark.host


def text_of(server, runs):
    return told(server, runs.first_id)["failure"]["text"]


@pytest.fixture
def bare(sim):
    return sim(2048, "--cache-none", "--verbose", "ERROR",
               env={"HEADROOM_RESCUE": "automatic"})


def test_without_a_cache_everything_runs_again_but_nothing_is_written_twice(bare):
    runs = run_and_rerun(bare.client, chain(fails=True), extra_data=None)
    assert runs.succeeded
    wrote = [written(bare.client, entry, "first") for entry in (runs.first, runs.rerun)]
    assert wrote in ([1, None], [None, 1])
    assert written(bare.client, runs.rerun, "last") == 1
    assert "everything runs again" in told(bare, runs.first_id)["failure"]["text"]


def test_without_a_cache_every_wire_is_guarded(bare):
    runs = failing(bare, picture(51).prompt, extra_data=None)
    assert runs.succeeded and runs.rerun is not None
    guards = [node for node in told(bare, runs.rerun_id)["nodes"]
              if node["class_type"] == "HeadroomOOMGuard"]
    assert len(guards) == 3


@pytest.fixture(params=["--cache-lru 1", "--cache-ram 0.5"])
def keeping(request, sim, tree_with):
    words = request.param.split()
    return sim(2048, *words, comfyui=tree_with(words[0]))


def test_where_results_are_kept_only_what_failed_or_had_not_run_runs_again(keeping):
    keeping.client.run(picture(61).prompt)
    runs = failing(keeping, picture(62).prompt)
    assert (runs.failed, runs.succeeded) == ("sampler", True)
    assert not {"1", "positive", "negative"} & ran_in(keeping, runs.rerun_id)
    assert "what had finished comes from the cache." in text_of(keeping, runs)
    runs = run_and_rerun(keeping.client, chain(fails=True))
    wrote = [written(keeping.client, entry, "first") for entry in (runs.first, runs.rerun)]
    assert runs.succeeded and wrote in ([1, None], [None, 1])


def by_its_job(client, prompt_id):
    assert client.post_json(f"/api/jobs/{prompt_id}/cancel", {})[0] == 200


def by_clearing_the_queue(client, prompt_id):
    assert client.post_json("/queue", {"clear": True})[0] == 200


@pytest.mark.parametrize("cancels", [by_its_job, by_clearing_the_queue])
def test_a_rerun_that_waits_is_given_up_by_its_job_as_by_clearing_the_queue(
    sim, newest_comfyui, cancels
):
    client = sim(2048, comfyui=newest_comfyui).client
    failed = client.queue(chain(fails=True))
    client.wait(failed)
    busy = client.queue({"1": {"class_type": "TimedWork", "inputs": {"seconds": 55.0, "salt": 0}}})
    wait_until(lambda: client.get_json("/queue")["queue_running"])
    rerun = client.post_json("/headroom/rescue", {"prompt_id": failed})[1]["prompt_id"]
    assert [item[1] for item in client.get_json("/queue")["queue_pending"]] == [rerun]
    cancels(client, rerun)
    client.interrupt()
    client.wait(busy)
    assert client.get_json("/queue") == {"queue_running": [], "queue_pending": []}
    assert client.history(rerun) is None
    again = client.post_json("/headroom/rescue", {"prompt_id": failed})[1]["prompt_id"]
    assert client.wait(again)["status"]["status_str"] == "success"


# ---------------------------------------------------------------- what is not in the cache any more


def drawn(node):
    """A number that is drawn anew in each run, and one that is not, beside a node that fails."""
    graph, name = Graph(), key()
    first = graph.add("OomWrites", "kept", value=3, key=f"{name} kept")
    second = graph.add(node, "drawn", **({"value": 5} if node == "OomCleans" else {"key": name}))
    once = graph.add("OomOnce", "once", value=second, key=f"{name} once", **AT_ONCE)
    graph.add("OomWrites", "last", value=once, key=f"{name} last")
    graph.add("OomWrites", "too", value=first, key=f"{name} too")
    return graph.prompt


def test_a_node_whose_change_mark_differs_each_time_is_said_to_run_again(gpu):
    runs = run_and_rerun(gpu.client, drawn("OomDraws"))
    text = text_of(gpu, runs)
    assert runs.succeeded and "drawn" in ran_in(gpu, runs.rerun_id)
    assert "comes from the cache, except for OomDraws (node drawn)." in text
    assert "The result may be different because of OomDraws (node drawn)." in text


def test_a_node_of_ours_that_marks_its_changes_by_the_prompt_is_said_to_be_cached(gpu):
    """Encode to CPU asks which prompt runs, for its mark: between two prompts none does."""
    def prompt(seed):
        found = picture(seed).prompt
        found["positive"] = {"class_type": "HeadroomEncodeToCPU", "inputs": {
            "clip": ["1", 1], "text": "a red cube", "split": "one prompt",
            "release_encoder": False, "cache": "disk"}}
        return found

    gpu.client.run(prompt(81))
    runs = failing(gpu, prompt(82))
    assert (runs.failed, runs.succeeded) == ("sampler", True)
    assert "OOM Guard: what had finished comes from the cache." in text_of(gpu, runs)
    assert "positive" not in ran_in(gpu, runs.rerun_id)


def test_after_a_cleaner_has_emptied_the_cache_everything_is_said_to_run_again(gpu):
    runs = run_and_rerun(gpu.client, drawn("OomCleans"))
    assert runs.succeeded and "drawn" in ran_in(gpu, runs.rerun_id)
    assert "everything runs again, because ComfyUI's cache has none of it" in text_of(gpu, runs)


def test_a_cache_that_was_emptied_after_the_offer_is_said_to_be_empty(gpu):
    offered = run_and_rerun(gpu.client, picture(71).prompt, extra_data=None)
    offered = failing(gpu, picture(72).prompt, extra_data=None)
    assert offered.failed == "sampler"
    assert "OOM Guard: what had finished comes from the cache." in text_of(gpu, offered)
    gpu.client.post_json("/free", {"free_memory": True})
    gpu.client.run(chain(fails=False))  # the flag is taken up
    _, answer = gpu.client.post_json("/headroom/rescue", {"prompt_id": offered.first_id})
    assert "everything runs again" in answer["text"]
    gpu.client.wait(answer["prompt_id"])
    assert {"1", "positive", "negative", "sampler"} <= ran_in(gpu, answer["prompt_id"])
