"""Each kind of advice: from a run's record and prompt to what to change, with its number."""

import pytest
from support.advice import (
    CLIP,
    MIB,
    PROMPT,
    UNET,
    VAE,
    Registry,
    case,
    found,
    model,
    step,
    text_to_image,
)

from headroom.advise.advise import advise, advise_into
from headroom.advise.case import less_by_node, together
from headroom.advise.finding import Bounds
from headroom.advise.fits import fits
from headroom.base.graph import Graph
from headroom.base.guards import guarded
from tools.prompt_edit import apply_edit


def kinds(*args, **more):
    return {one.kind for one in advise(case(*args, **more))}


def saves(one):
    return one.saves.low / MIB, one.saves.high / MIB


def test_a_text_encoder_that_stays_is_encoded_to_the_cpu_instead():
    one = found()["encode_to_cpu-6-7"]
    assert not one.changes_picture and one.measured_on["held_mib"] == 600
    assert saves(one) == (600, 600)  # 2100 become 1500, everywhere it was idle
    edited = apply_edit(PROMPT, one.edit)
    assert edited["6"]["class_type"] == edited["7"]["class_type"] == "HeadroomEncodeToCPU"
    assert edited["6"]["inputs"]["text"] == "a cat" and edited["3"] == PROMPT["3"]


def test_advice_for_one_node_saves_no_more_than_the_next_highest_peak_allows():
    steps = [*text_to_image()[:2], step("3", 1900, {"m1": (0, 1000)}),
             step("8", 2100, {"m1": 1000, "m3": (0, 200)})]
    one = found(steps)["offload_after-8"]
    assert saves(one) == (200, 200)  # the sampler needs 1900 all the same
    edited = apply_edit(PROMPT, one.edit)
    assert edited["10"]["inputs"]["model"] == ["4", 0]
    assert edited["10"]["inputs"]["after"] == ["3", 0]
    assert edited["8"]["inputs"]["samples"] == ["10", 1]


def test_an_encoder_of_its_own_kind_is_offloaded_after_its_nodes():
    prompt = {**PROMPT, "6": {"class_type": "CLIPTextEncodeFlux", "inputs": {"clip": ["4", 1]}},
              "7": {"class_type": "CLIPTextEncodeFlux", "inputs": {"clip": ["4", 1]}}}
    one = found(text_to_image(prompt), prompt)["offload_after-6-7"]
    edited = apply_edit(prompt, one.edit)
    assert edited["3"]["inputs"]["positive"] == ["10", 1]
    assert edited["10"]["inputs"]["model"] == ["4", 1]


def test_a_file_that_two_nodes_load_is_one_model_whose_nodes_are_all_found():
    """ComfyUI runs one of two equal nodes, and both return its result."""
    prompt = {**PROMPT, "14": PROMPT["4"],
              "7": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["14", 1], "text": "b"}}}
    assert "encode_to_cpu-6-7" in found(text_to_image(prompt), prompt)


def test_between_two_checkpoints_all_is_purged_except_what_the_node_uses():
    prompt = {**PROMPT, "14": {"class_type": "CheckpointLoaderSimple", "inputs": {
        "ckpt_name": "b.safetensors"}}, "13": {"class_type": "KSampler", "inputs": {
        **PROMPT["3"]["inputs"], "model": ["14", 0], "latent_image": ["3", 0]}}}
    prompt["8"] = {"class_type": "VAEDecode", "inputs": {"samples": ["13", 0], "vae": ["14", 2]}}
    other = model("m4", "diffusion model", 1000)
    steps = [step("3", 1200, {"m1": (0, 1000), "m3": 200}, prompt),
             step("13", 2400, {"m1": 1000, "m3": 200, "m4": (0, 1000)}, prompt)]
    one = found(steps, prompt, (UNET, VAE, other))["purge_between-13"]
    assert saves(one)[1] == 1200
    purge = apply_edit(prompt, one.edit)["15"]
    assert purge["inputs"]["unload"] == "all but keep" and purge["inputs"]["keep"] == ["14", 0]
    assert purge["inputs"]["value"] == ["3", 0]


def test_a_controlnet_counts_as_used_where_its_conditioning_goes():
    prompt = {**PROMPT, "20": {"class_type": "ControlNetLoader", "inputs": {}},
              "21": {"class_type": "ControlNetApplyAdvanced", "inputs": {
                  "positive": ["6", 0], "negative": ["7", 0], "control_net": ["20", 0]}}}
    prompt["3"] = {"class_type": "KSampler", "inputs": {
        **PROMPT["3"]["inputs"], "positive": ["21", 0], "negative": ["21", 1]}}
    net = model("m4", "ControlNet", 500)
    steps = [step("3", 2000, {"m1": 1000, "m4": 500}, prompt)]
    assert "offload_after-3" not in found(steps, prompt, (UNET, net))


def test_a_float32_model_is_cast_and_that_changes_the_picture():
    unet = model("m1", "diffusion model", 1000, float32_bytes=1000 * MIB)
    steps = [step("3", 1300, {"m1": 1000})]
    one = found(steps, models=(unet,), can_bf16=True)["cast_bf16-4-output0"]
    assert one.changes_picture and one.cost == "picture"
    assert saves(one) == (450, 650)  # the weights at least, and half of what is computed
    assert apply_edit(PROMPT, one.edit)["3"]["inputs"]["model"] == ["10", 0]
    assert "cast_bf16" not in kinds(steps, models=(unet,), can_bf16=False)


def test_a_model_that_is_gone_saves_nothing_by_a_cast():
    gone = {("3", "m1"): Bounds(900, 1000)}
    cast = {("3", "cast:m1"): Bounds(450, 500), ("6", "cast:m1"): Bounds(450, 500)}
    assert less_by_node(together(gone, cast)) == {"3": (900, 1000), "6": (450, 500)}


def test_a_model_that_came_with_the_node_was_there_when_it_computed():
    unet = model("m1", "diffusion model", 1000, float32_bytes=1000 * MIB)
    steps = [step("3", 1300, {"m1": (0, 1000)})]
    assert saves(found(steps, models=(unet,), can_bf16=True)["cast_bf16-4-output0"]) == (450, 650)


@pytest.mark.parametrize(("peak_mib", "advised"), [(1300, False), (1700, True)])
def test_an_encoder_that_was_unloaded_before_the_peak_gives_no_advice(peak_mib, advised):
    """The model needs 1000 MiB of the peak; the encoder's 600 were there too only if they fit."""
    steps = [step("6", 700, {"m2": (0, 600)}), step("7", 700, {"m2": 600}),
             step("3", peak_mib, {"m2": (600, 0), "m1": (0, 1000)})]
    assert ("encode_to_cpu-6-7" in found(steps)) is advised
    assert fits(case(steps))["smallest_mib"][0] == (1100 if advised else 1300)


def test_a_peak_in_a_vae_is_guarded_and_so_is_what_would_fail_next():
    one = found()["oom_guard-6-7-3-8"]
    edited = apply_edit(PROMPT, one.edit)
    guards = [n for n in edited.values() if n["class_type"] == "HeadroomOOMGuard"]
    assert [guard["inputs"]["model"] for guard in guards] == [["4", 1], ["4", 0], ["4", 2]]
    assert "oom_guard" not in kinds(text_to_image()[:3])


def test_advice_guards_the_wires_that_a_rerun_guards():
    edited = apply_edit(PROMPT, found()["oom_guard-6-7-3-8"].edit)
    rerun = guarded(Graph(PROMPT, Registry())).prompt
    assert through_guards(edited) == through_guards(dict(rerun)) != []


def through_guards(prompt):
    """Which input gets which output through a guard."""
    return sorted((node_id, name, *prompt[value[0]]["inputs"]["model"])
                  for node_id, node in prompt.items() for name, value in node["inputs"].items()
                  if isinstance(value, list)
                  and prompt[value[0]]["class_type"] == "HeadroomOOMGuard")


def test_a_prompt_that_ran_out_of_memory_comes_first_with_what_it_asked_for():
    steps = [*text_to_image()[:2], step("3", 1900, {"m1": (0, 1000)}, status="failed")]
    one = advise(case(steps, failure={"node_id": "3", "asked_mib": 512.0}))[0]
    assert one.kind == "oom_guard" and one.measured_on["asked_mib"] == 512
    assert "512 MiB" in one.text


def test_another_process_is_named_with_what_it_holds():
    one = found(others={"python (77)": 900.0, "xorg (1)": 40.0})["other_process"]
    assert one.edit is None and saves(one) == (0, 900)
    assert "python (77) holds 900 MiB" in one.text
    assert "other_process" not in kinds(others={"xorg (1)": 40.0})


def test_one_setting_is_named_with_its_source_where_memory_lies_in_pieces():
    steps = [step("3", 1900, {"m1": 1000}, spare_bytes=500)]
    native = {"backend": "native", "expandable": False, "can_expand": True}
    tight = found(steps, total_mib=2000, allocator=native)
    assert {"expandable_segments", "gc_threshold"} & set(tight) == {"expandable_segments"}
    assert "pytorch.org" in tight["expandable_segments"].text
    assert not {"expandable_segments", "gc_threshold"} & kinds(steps, allocator=native)
    on = {**native, "expandable": True}
    assert "expandable_segments" not in kinds(steps, total_mib=2000, allocator=on)
    windows = {**native, "can_expand": False}
    assert kinds(steps, total_mib=2000, allocator=windows) & {
        "expandable_segments", "gc_threshold"} == {"gc_threshold"}


def test_a_flag_is_advised_only_where_comfyui_has_it():
    around = {"failure": {"class_type": "KSampler", "node_id": "3"}, "others": {"a (1)": 900.0}}
    for has, flag in (({"--reserve-vram"}, "--reserve-vram"),
                      ({"--reserve-vram", "--vram-headroom"}, "--vram-headroom")):
        assert f"{flag} 1.4" in found(**around, has_flag=has.__contains__)["reserve"].text
    assert "reserve" not in kinds(**around)


def test_advice_that_saves_less_than_a_twentieth_of_the_peak_is_left_out():
    tiny = (model("m2", "text encoder", 60), UNET)
    steps = [step("6", 70, {"m2": (0, 60)}), step("3", 1900, {"m2": 60, "m1": (0, 1000)})]
    assert not {"encode_to_cpu", "offload_after"} & kinds(steps, models=tiny)
    assert kinds([]) == set()


def test_pages_of_dynamic_vram_are_sure_to_go_only_while_there_is_room():
    models = (UNET, model("m2", "text encoder", 600, is_dynamic=True), VAE)
    assert saves(found(models=models)["encode_to_cpu-6-7"]) == (600, 600)
    assert saves(found(models=models, total_mib=2150)["encode_to_cpu-6-7"]) == (0, 600)


def test_advice_about_models_left_after_the_run_comes_last():
    last = advise(case())[-1]
    assert (last.kind, last.values["sentence"]) == ("purge_between", "purge_at_end")
    purge = apply_edit(PROMPT, last.edit)["10"]
    assert purge["inputs"]["unload"] == "all models" and purge["inputs"]["value"] == ["8", 0]


def test_every_finding_has_a_number_a_sentence_and_an_edit_that_fits_its_prompt():
    for one in advise(case(others={"a (1)": 500.0})):
        data = one.as_json()
        assert {"id", "text", "said", "saves_mib", "measured_on", "node_ids", "changes_picture",
                "edit", "kind", "values", "cost", "measured_mib"} == set(data)
        assert data["saves_mib"][0] <= data["saves_mib"][1] and data["measured_on"]
        assert one.edit is None or apply_edit(PROMPT, one.edit) != PROMPT


@pytest.mark.parametrize("target_mib, wanted", [
    (2200, []), (1600, ["encode_to_cpu-6-7"]), (900, ["encode_to_cpu-6-7", "offload_after-8"]),
])
def test_making_it_fit_takes_what_is_needed_and_no_more(target_mib, wanted):
    steps = advise_into(case(), target_mib * MIB)
    chosen = [one.id for one, _ in steps if one.kind != "oom_guard"]
    assert chosen == wanted
    reached = [after.high <= target_mib * MIB for one, after in steps if one.kind != "oom_guard"]
    assert any(one.kind == "oom_guard" for one, _ in steps) == (reached[-1:] == [False])


def test_models_whose_use_nobody_can_tell_are_left_alone():
    strange = model("m9", "model", 900)
    steps = [step("3", 1900, {"m9": 900, "m1": (0, 1000)})]
    assert not {"offload_after", "purge_between"} & {
        one.kind for one in advise(case(steps, models=(UNET, strange)))
        if not one.values.get("after")}


def test_advice_on_a_prompt_that_nobody_remembers_is_about_settings_only():
    assert kinds(prompt={}, others={"a (1)": 500.0}) == {"other_process"}


def test_the_smallest_gpu_lies_between_the_peak_and_what_is_left_without_idle_models():
    told = fits(case())
    assert told["smallest_mib"] == [1300.0, 2100.0] and not told["at_least"]
    assert told["cards_gib"][:2] == [4, 6] and told["kind"] == "measured"
    failed = fits(case(failure={"node_id": "8", "asked_mib": 100.0}))
    assert failed["smallest_mib"] == [2200.0, 2200.0] and failed["at_least"]
    assert failed["cards_gib"] == [] and fits(case([])) is None
    assert CLIP.kind == "text encoder"


@pytest.mark.parametrize("class_type", ["Unknown", "HeadroomOOMGuard"])
def test_thousands_of_nodes_in_a_row_are_no_trouble(class_type):
    """No recursion, and no work that doubles at each node with two inputs."""
    prompt = {**PROMPT, "100": {"class_type": class_type, "inputs": {"model": ["4", 0]}}}
    for number in range(101, 2000):
        above = [str(number - 1), 0]
        prompt[str(number)] = {"class_type": class_type, "inputs": {"model": above, "b": above}}
    prompt["3"] = {"class_type": "KSampler",
                   "inputs": {**PROMPT["3"]["inputs"], "model": ["1999", 0]}}
    assert any(one.kind == "encode_to_cpu" for one in advise(case(text_to_image(prompt), prompt)))
