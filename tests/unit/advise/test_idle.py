"""Where a node that frees a model is put: before a node without it, or behind its last user."""

from support.advice import CLIP, PROMPT, UNET, VAE, case, found, step, text_to_image

from headroom.advise import idle, leftover
from tools.prompt_edit import apply_edit

TWO = {**PROMPT, "14": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "b"}},
       "16": {"class_type": "CLIPTextEncodeFlux", "inputs": {"clip": ["14", 1]}}}
TWO_STEPS = (
    step("8", 700, {"m3": (0, 200)}, TWO), step("9", 250, {"m3": 200}, TWO),
    step("16", 900, {"m3": 200, "m2": (0, 600)}, TWO),
)


def test_a_model_is_freed_behind_its_last_user_where_the_next_waits_for_a_loader():
    """Before the encode node the new one would run as soon as the file is loaded: too early."""
    one = found(TWO_STEPS, TWO, (CLIP, VAE))["offload_after-16"]
    (insert,) = one.edit["steps"]
    assert (insert["from"], insert["to"], insert["links"]) == (
        ["8", 0], [["9", "images"]], {"model": ["4", 2]})


def test_a_node_that_is_on_the_wire_already_is_not_advised_again():
    (insert,) = found(TWO_STEPS, TWO, (CLIP, VAE))["offload_after-16"].edit["steps"]
    again = apply_edit(TWO, {"steps": [insert]})
    steps = [*TWO_STEPS[:1], step("17", 250, {"m3": 200}, again), *TWO_STEPS[1:]]
    assert "offload_after-16" not in found(steps, again, (CLIP, VAE))


LOOP = {
    **PROMPT, "start": {"class_type": "StartLoop", "inputs": {"mode": "simple"}},
    "3": {**PROMPT["3"], "inputs": {**PROMPT["3"]["inputs"], "seed": ["start", 0]}},
    "end": {"class_type": "EndLoop", "inputs": {"output_value": ["8", 0]}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["end", 0]}},
}


def test_in_a_loop_a_model_of_the_loop_is_freed_on_a_wire_of_the_loop_or_not_at_all():
    """On a wire into the loop a node runs once, before the first turn."""
    steps = text_to_image(LOOP)
    made = case((*steps, *steps[2:4]), LOOP, (UNET, CLIP, VAE))
    decode, sample = steps[3], steps[2]
    assert idle._spot(made, decode, {"m1"}).wire == ("3", 0)
    assert idle._spot(made, sample, {"m3"}).wire == ("start", 0)  # not a latent or a prompt
    assert idle._spot(made, sample, {"m2"}).wire[0] in "567"  # used before the loop only
    without_start = {**LOOP, "3": PROMPT["3"],
                     "8": {**LOOP["8"], "inputs": {**LOOP["8"]["inputs"], "x": ["start", 0]}}}
    made = case(steps, without_start, (UNET, CLIP, VAE))
    assert idle._spot(made, decode, {"m3"}).wire in (("3", 0), ("start", 0))


def test_a_node_for_the_end_of_the_run_is_not_put_on_a_wire_of_a_loop():
    (last,) = [one for one in leftover.findings(case(text_to_image(LOOP)[:4], LOOP))]
    [step] = last.edit["steps"]
    assert step["from"] == ["4", 2]  # the VAE: what comes into the loop


def test_the_end_of_the_run_counts_what_models_hold_and_no_cache_that_comfyui_returns_itself():
    none, some = ([step("8", 700, held, spare_bytes=500 << 20)] for held in ({}, {"m3": 200}))
    assert leftover.findings(case(none)) == []
    (one,) = leftover.findings(case(some))
    assert (one.saves.high >> 20, one.measured_on["left_mib"]) == (200, 200)


def test_no_wire_is_drawn_out_of_a_loop_past_its_end():
    looped = {**TWO, "start": {"class_type": "StartLoop", "inputs": {"mode": "simple"}},
              "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": ["start", 0]}}}
    for prompt, is_there in ((TWO, True), (looped, False)):
        made = case(TWO_STEPS, prompt, (CLIP, VAE))
        spot = idle._Spot(("14", 1), made.graph.takers("14", 1), "before-16")
        assert (idle._edit(made, made.steps[-1], {"m3"}, spot) is not None) == is_there
