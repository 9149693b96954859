"""What `dev.py fit` changes in a prompt before it runs dry: a guard, advice, steps, samplers."""

import pytest

from tools.fit_prompt import ObjectInfo, advised, guarded, loaded_by, without_noise_trees
from tools.fit_steps import STEPS, fewer_steps

INFO = {
    "Loader": {"input": {}, "output": ["MODEL"], "python_module": "nodes"},
    "KSampler": {"input": {"required": {"model": ["MODEL"], "steps": ["INT"]}},
                 "output": ["LATENT"], "python_module": "nodes"},
    "HeadroomOOMGuard": {"input": {"required": {"model": ["MODEL"]}}, "output": ["MODEL"],
                         "python_module": "custom_nodes.headroom"},
}
PROMPT = {
    "1": {"class_type": "Loader", "inputs": {"name": "a.safetensors"}},
    "3": {"class_type": "KSampler", "inputs": {"model": ["1", 0], "steps": 20}},
}


def test_the_guarded_prompt_has_a_guard_between_the_loader_and_the_sampler():
    registry = ObjectInfo(INFO)
    found = guarded(PROMPT, registry)
    (new,) = set(found) - set(PROMPT)
    assert found[new]["inputs"]["model"] == ["1", 0] and found["3"]["inputs"]["model"] == [new, 0]
    assert registry.samples("KSampler") and not registry.samples("Loader")


def test_advice_for_one_run_that_keeps_the_picture_is_applied_and_no_other():
    edit = {"steps": [{"op": "set", "node": "3", "input": "steps", "value": 7}]}
    other = {"steps": [{"op": "set", "node": "gone", "input": "steps", "value": 9}]}
    advice = [{"text": "one", "edit": edit, "changes_picture": False},
              {"text": "two", "edit": other, "changes_picture": False},
              {"text": "three", "edit": edit, "changes_picture": True},
              {"text": "four", "edit": None, "changes_picture": False}]
    prompt, applied = advised(PROMPT, advice)
    assert prompt["3"]["inputs"]["steps"] == 7 and applied == ["one"]


def sampler(**inputs):
    return {"class_type": "KSamplerAdvanced", "inputs": inputs}


def steps_of(prompt, *names):
    return [fewer_steps(prompt)[node_id]["inputs"][name] for node_id, name in names]


def test_steps_are_cut_also_where_another_node_tells_them():
    assert fewer_steps(PROMPT)["3"]["inputs"]["steps"] == STEPS
    wired = {"1": {"class_type": "PrimitiveInt", "inputs": {"value": 40}},
             "2": {"class_type": "PrimitiveInt", "inputs": {"value": 3}},
             "3": {"class_type": "Switch", "inputs": {"on_true": ["1", 0], "on_false": ["2", 0],
                                                      "switch": False}},
             "4": sampler(steps=["1", 0]), "5": sampler(steps=["3", 0]),
             "6": sampler(steps=["4", 0])}
    assert steps_of(wired, ("4", "steps"), ("5", "steps"), ("6", "steps")) == [STEPS, 3, STEPS]


def test_steps_that_are_listed_by_their_noise_are_cut_too_with_the_end_kept():
    listed = {"1": {"class_type": "ManualSigmas", "inputs": {"sigmas": "1.0, 0.9, 0.8, 0.7, 0.0"}},
              "2": {"class_type": "ManualSigmas", "inputs": {"sigmas": "0.85, 0.42, 0.0"}}}
    assert steps_of(listed, ("1", "sigmas"), ("2", "sigmas")) == [
        "1.0, 0.9, 0.8, 0.0", "0.85, 0.42, 0.0"]
    split = {**listed, "3": {"class_type": "SplitSigmas", "inputs": {"step": 4}}}
    assert fewer_steps(split)["1"] == listed["1"]


def test_samplers_that_share_their_steps_take_two_each():
    shared = {"1": sampler(steps=20, start_at_step=0, end_at_step=10),
              "2": sampler(steps=20, start_at_step=10, end_at_step=10000)}
    assert steps_of(shared, ("1", "steps"), ("1", "end_at_step"), ("2", "start_at_step"),
                    ("2", "end_at_step")) == [4, 2, 2, 10000]
    split = {"1": sampler(steps=30), "2": {"class_type": "SplitSigmas", "inputs": {"step": 25}}}
    assert steps_of(split, ("1", "steps"), ("2", "step")) == [4, 2]


def test_shared_steps_stay_where_they_are_few_or_cannot_be_told():
    few = {"1": sampler(steps=3, end_at_step=2)}
    unknown = {"1": sampler(steps=20, end_at_step=["2", 0]), "2": sampler(steps=20)}
    assert fewer_steps(few) == few and fewer_steps(unknown) == unknown


def test_a_sampler_of_one_step_takes_another_that_shows_what_is_streamed():
    turbo = {"3": {"class_type": "SDTurboScheduler", "inputs": {"steps": 1}}}
    assert fewer_steps(turbo)["3"]["inputs"]["steps"] == 2


@pytest.mark.parametrize("name, taken", [
    ("dpmpp_2m_sde_gpu", "euler"), ("dpmpp_sde", "heun"), ("dpmpp_2m", "dpmpp_2m"),
    ("exp_heun_2_x0_sde", "heun"), ("sa_solver", "euler"), ("er_sde", "er_sde"),
])
def test_a_sampler_that_needs_real_values_is_replaced_by_one_with_as_many_calls(name, taken):
    prompt = {"3": {"class_type": "KSampler", "inputs": {"sampler_name": name, "model": ["1", 0]}}}
    assert without_noise_trees(prompt)["3"]["inputs"]["sampler_name"] == taken
    assert prompt["3"]["inputs"]["sampler_name"] == name


def test_only_a_node_without_wires_reads_nothing_but_its_file():
    assert loaded_by(PROMPT, "1") == "a.safetensors"
    assert loaded_by(PROMPT, "3") == loaded_by(PROMPT, "9") == ""
    lora = {"2": {"class_type": "LoraLoader", "inputs": {"model": ["1", 0], "name": "b.sft"}}}
    assert loaded_by(lora, "2") == ""
