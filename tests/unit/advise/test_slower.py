"""A node that took much longer than before: which one, and what differs in the records."""

from dataclasses import replace

import pytest
from support.advice import PROMPT, UNET
from support.recorder import Records

from headroom.advise.slower import Slower, nodes_of, same_nodes, slower
from headroom.base.graph import Graph
from headroom.host.types import Held, NodeLabel, Outcome, Previews
from headroom.measure.journal import Action, OomAttempt
from headroom.measure.strain import Strain
from headroom.record.memory import Reading, Use
from headroom.record.nodes import NodeTable
from headroom.record.run import Run

MIB = 1 << 20
BIG = replace(UNET, total_bytes=4000 * MIB)


def reading(at, held_mib=0, others_mib=100, is_dynamic=False, strain=None):
    facts = replace(BIG, is_dynamic=is_dynamic)
    reserved = 0 if is_dynamic else held_mib
    use = Use((others_mib + held_mib) * MIB, reserved * MIB)
    models = (Held(facts, "cuda:0", held_mib * MIB),) if held_mib else ()
    return Reading(at, 0, (use,), models, strain)


def run_of(prompt_id, seconds, before=(4000,), after=(4000,), entries=(), amid=None):
    run = Run(prompt_id, ("cuda:0",), reading(0), float(len(prompt_id)), NodeTable(
        lambda node_id: NodeLabel(node_id, "KSampler", "KSampler", node_id)))
    run.node_starts("3", reading(1, *before))
    if amid is not None:
        run.observe(reading(2, 4000, strain=amid))
    run.node_finishes("3", reading(1 + seconds, *after))
    for entry in entries:
        run.note(2.0, entry)
    run.end(reading(1 + seconds))
    run.settle(Outcome("success"))
    return run


def told(now, before):
    keys = same_nodes(Graph(PROMPT))
    found = slower(nodes_of(now, keys), [nodes_of(one, keys) for one in before])
    return [one["text"] for one in found]


def test_a_node_is_told_that_took_more_than_three_times_its_fastest_earlier_run():
    [text] = told(run_of("c", 31), [run_of("b", 40), run_of("a", 10)])
    assert text.startswith("KSampler #3 took 31.0 s, and 10.0 s in an earlier run: ")
    assert told(run_of("c", 30), [run_of("a", 10)]) == []
    assert told(run_of("c", 31), []) == []
    assert told(run_of("c", 0.9), [run_of("a", 0.1)]) == []  # too short to tell


def test_where_the_records_are_the_same_it_says_so():
    [text] = told(run_of("c", 31), [run_of("a", 10)])
    assert text.endswith("so the reason is outside of the record")


@pytest.mark.parametrize("how, why", [
    ({"before": (0,)},
     "4,000.0 MiB of SD15 were loaded again, but were there in the earlier run"),
    ({"before": (1000,), "after": (1000,)}, "3,000.0 MiB of SD15 did not fit and were streamed"),
    ({"before": (4000, 3100)},
     "other programs held 3,100.0 MiB of the GPU, and 100.0 MiB in the earlier run"),
    ({"entries": [Action("c", "3", "guard", 0.0, "in tiles of 512 pixels: remembered")]},
     "OOM Guard: in tiles of 512 pixels: remembered"),
    ({"entries": [OomAttempt("c", "3", 1, "unloaded", 0.0, "oom", True, 2.0)]},
     "calls that OOM Guard repeated: 1, and 0 in the earlier run"),
])
def test_each_difference_is_named_with_its_figure(how, why):
    [text] = told(run_of("c", 31, **how), [run_of("a", 10)])
    assert text.partition("earlier run: ")[2] == why.replace("SD15", BIG.class_name)


@pytest.mark.parametrize("strain, why", [
    (Strain(1240 * MIB, 0, 0), "the driver had moved 1,240.0 MiB of VRAM into RAM, and 0.0 MiB "
     "in the earlier run"),
    (Strain(None, 900 * MIB, None),
     "900.0 MiB of swap were in use, and 0.0 MiB in the earlier run"),
    (Strain(0, 0, 6200 * MIB, 20.0), "6,200.0 MiB were read from disk in 20.0 s (310.0 MiB a "
     "second), and 0.0 MiB in 0.0 s in the earlier run"),
])
def test_swap_and_disk_that_slowed_the_node_are_named(strain, why):
    run = run_of("c", 31, after=(4000, 100, False, strain), amid=Strain(0, 0, 0))
    [text] = told(run, [run_of("a", 10)])
    assert text.partition("earlier run: ")[2] == why


def test_the_same_bytes_from_a_slower_disk_are_named():
    def run(prompt_id, seconds):
        run = run_of(prompt_id, seconds)
        record = run.nodes.records["3"]
        record.read_bytes, record.read_seconds = 6000 * MIB, seconds - 5.0
        return run

    [text] = told(run("c", 65), [run("a", 15)])
    assert text.partition("earlier run: ")[2] == (
        "6,000.0 MiB were read from disk in 60.0 s (100.0 MiB a second), and 6,000.0 MiB in 10.0 s "
        "in the earlier run")


def test_two_models_of_one_class_are_named_by_their_files():
    def run(prompt_id, seconds, *mib):
        run = run_of(prompt_id, seconds)
        record = run.nodes.records["3"]
        held = [[Held(replace(BIG, file=f"{name}.safetensors"), "cuda:0", part * MIB)
                 for name, part in zip(("high", "low"), parts, strict=True)]
                for parts in (mib, (4000, 4000))]
        record.before, record.after = (
            one._replace(models=tuple(models)) for one, models in zip(
                (record.before, record.after), held, strict=True))
        return run

    [text] = told(run("c", 31, 0, 4000), [run("a", 10, 4000, 4000)])
    assert text.partition("earlier run: ")[2] == (
        f"4,000.0 MiB of {BIG.class_name} (high.safetensors) were loaded again, but were there in "
        "the earlier run")


def test_previews_that_a_model_draws_are_named():
    now, before = run_of("c", 31, after=(5000,)), run_of("a", 10)
    now.after([], Previews("taesd", 5 * MIB))
    before.after([], Previews("none", 0))
    assert "previews were drawn" not in told(now, [before])[0]  # this node has drawn none
    now.drawn = {"3": (1024, 1536)}
    [text] = told(now, [before])
    assert text.endswith("previews were drawn by a model (taesd, a file of 5.0 MiB), but not in "
                         "the earlier run; the peak of VRAM was 5,100.0 MiB, and 4,100.0 MiB in "
                         "the earlier run")
    assert "previews were drawn" not in told(run_of("c", 31), [now, run_of("b", 10)])[0]
    now.previews = Previews("taesd", 5 * MIB, 768)
    assert ("(taesd, a file of 5.0 MiB, and about 1,152.0 MiB each time that it draws 1024x1536 "
            "pixels)") in told(now, [before])[0]
    now.previews = Previews("taesd", 0)  # ComfyUI found no file for it, and drew without
    assert "previews were drawn" not in told(now, [before])[0]


def test_pages_of_dynamic_vram_are_not_other_programs():
    [text] = told(run_of("c", 31, before=(4000, 100, True)), [run_of("a", 10)])
    assert "other programs" not in text.replace("models, other programs", "")


def test_the_same_node_is_one_with_the_same_values_above_it_but_for_seeds_and_texts():
    def changed(node_id, **inputs):
        node = PROMPT[node_id]
        return {**PROMPT, node_id: {**node, "inputs": {**node["inputs"], **inputs}}}

    key = same_nodes(Graph(PROMPT))["3"]
    assert same_nodes(Graph(changed("3", seed=99)))["3"] == key
    assert same_nodes(Graph(changed("6", text="another one")))["3"] == key
    assert same_nodes(Graph(changed("3", steps=99)))["3"] != key
    latent = PROMPT["3"]["inputs"]["latent_image"][0]
    assert same_nodes(Graph(changed(latent, width=4096)))["3"] != key


def test_only_runs_before_it_count_and_each_run_is_worked_out_once():
    records, asked = Records(run_of("ccc", 10), run_of("bb", 31), run_of("a", 10)), []

    def graph_of(prompt_id):
        asked.append(prompt_id)
        return Graph(PROMPT)

    back = Slower(records, graph_of)
    assert back.of("ccc") == [] and back.of("a") == [] and back.of("gone") == []
    for _ in range(2):
        assert [one["before_run"] for one in back.of("bb")] == ["a"]
    assert sorted(asked) == ["a", "bb", "ccc"]
