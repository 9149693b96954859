"""Code that reads a whole guarded prompt, to save it, gets the prompt of its user."""

import copy
import json

import pytest
from support.guard_prompts import Registry, node, picture
from support.rescue_bench import PROMPT

from headroom.rescue.settings import as_wished


def posted(prompt):
    """The prompt that ComfyUI runs if every wire is to be guarded."""
    wish = {"prompt": prompt, "extra_data": {"headroom": {"guard": True}}}
    return as_wished(wish, {}, Registry())["prompt"]


def test_wires_without_a_guard_are_named_once_and_not_with_every_prompt_of_a_queue(caplog):
    pipe = {"1": node("Checkpoint"), "2": node("Pipe", model=["1", 0]),
            "3": node("PipeSample", pipe=["2", 0])}
    for seed in range(3):
        posted({**pipe, "4": node("Empty", seed=seed)})
    assert len(caplog.messages) == 1 and "BASIC_PIPE" in caplog.text


def guider():
    return {
        "1": node("Checkpoint"), "2": node("Encode", clip=["1", 1], text="x"),
        "3": node("Guider", model=["1", 0], positive=["2", 0]),
        "4": node("SampleGuided", guider=["3", 0], latent=["5", 0]), "5": node("Empty"),
    }


def written(prompt, how):
    return json.loads({
        "plain": lambda: json.dumps(prompt), "indented": lambda: json.dumps(prompt, indent=2),
        "sorted": lambda: json.dumps(prompt, sort_keys=True),
        "a copy": lambda: json.dumps(copy.deepcopy(prompt)),
        "shallow": lambda: json.dumps(prompt.copy()),
        "by items": lambda: json.dumps({name: one for name, one in prompt.items()}),
        "in a list": lambda: json.dumps([[1, prompt]]),
    }[how]())


@pytest.mark.parametrize("how", ["plain", "indented", "sorted", "a copy", "shallow", "by items"])
@pytest.mark.parametrize("prompt", [picture(), guider()], ids=["picture", "guider"])
def test_a_picture_contains_the_users_prompt(prompt, how):
    found = posted(prompt)
    assert found["4"]["inputs"] != prompt["4"]["inputs"] or found["3"] != prompt["3"]
    assert written(found, how) == prompt


def test_a_queue_that_is_listed_shows_the_users_prompt():
    assert written(posted(picture()), "in a list") == [[1, picture()]]


def test_a_copy_runs_guarded_as_the_prompt_itself_does():
    for found in (posted(picture()), copy.deepcopy(posted(picture())), posted(picture()).copy()):
        assert found["4"]["inputs"]["model"] == ["headroom-guard-1-0", 0]
        assert "headroom-guard-1-0" in found and "headroom-guard-1-0" in set(found.keys())


def test_changes_that_a_node_makes_to_the_prompt_are_in_the_picture():
    found = posted(picture())
    found["4"]["inputs"]["seed"] = 7  # as nodes do that draw their seed on the server
    assert written(found, "plain")["4"]["inputs"] == {**picture()["4"]["inputs"], "seed": 7}


def test_the_prompt_of_a_second_run_is_shown_as_the_user_made_it(bench):
    bench.fail(failed="3", executed=("1", "2"))
    prompt = bench.only_queued[2]
    assert prompt["3"]["inputs"]["vae"] == ["headroom-guard-1-1", 0]
    assert written(prompt, "plain") == PROMPT


def test_a_second_run_of_a_guarded_prompt_keeps_its_guards_and_the_users_view(bench):
    once = as_wished({"prompt": PROMPT, "extra_data": {"headroom": {"guard": True}}}, {},
                     bench.registry)["prompt"]
    bench.begin(prompt=copy.deepcopy(once))
    bench.end(failed="3", executed=("1", "headroom-guard-1-0", "2"))
    prompt = bench.only_queued[2]
    assert dict(prompt) == dict(once)  # nothing that had finished has another cache key
    assert written(prompt, "plain") == PROMPT


def test_a_node_of_the_user_with_a_name_like_ours_is_shown():
    prompt = {**picture(), "headroom-guard-1-0": node("Empty")}
    assert written(posted(prompt), "plain") == prompt
