"""Loops as ComfyUI's nodes and others declare them: no new wire leaves one except at its end."""

import pytest
from support.guard_prompts import Registry, node, picture

from headroom.base.graph import Graph
from headroom.base.guards import guarded
from headroom.base.loops import keeps_iterations, leaves_loop
from headroom.base.prompt_node import is_link

START, END = "TheirLoop", "TheirLoopEnd"  # of another pack: what decides is what they declare


def looped(cache_iterations=False):
    """A picture whose LoRA, sampler and decoder are in a loop; 6, which takes it, is behind."""
    prompt = picture()
    prompt["start"] = node(START, mode="simple", cache_iterations=cache_iterations)
    prompt["lora"] = node("Lora", model=["1", 0], clip=["1", 1], strength=["start", 0])
    prompt["4"]["inputs"]["model"] = ["lora", 0]
    prompt["end"] = node(END, output_value=["5", 0])
    prompt["6"]["inputs"] = {"images": ["end", 0]}
    return prompt


def ways_out(prompt):
    """The nodes behind a Start Loop that nobody takes anything from, and are no End Loop."""
    takers = {}
    for name, one in prompt.items():
        for value in one["inputs"].values():
            if is_link(value):
                takers.setdefault(value[0], set()).add(name)
    found, pending = set(), ["start"]
    while pending:
        current = pending.pop()
        if current not in found:
            found.add(current)
            if prompt[current]["class_type"] != END:
                pending += takers.get(current, ())
    return {one for one in found if one not in takers and prompt[one]["class_type"] != END}


def test_guards_lead_to_the_end_of_the_loop_they_are_in_and_nowhere_else():
    prompt = looped()
    assert ways_out(prompt) == set()
    found = guarded(Graph(prompt, Registry()))
    assert {"headroom-guard-lora-0", "headroom-guard-1-2"} <= set(found.guards)
    assert ways_out(dict(found.prompt)) == set()
    assert found.prompt["end"] == prompt["end"] and found.prompt["start"] == prompt["start"]


@pytest.mark.parametrize(("source", "taker", "leaves"), [
    (("lora", 0), "6", True), (("start", 0), "6", True), (("lora", 0), "5", False),
    (("end", 0), "6", False), (("1", 0), "4", False), (("lora", 0), "end", False),
])
def test_a_wire_leaves_a_loop_where_it_goes_past_its_end(source, taker, leaves):
    assert leaves_loop(Graph(looped(), Registry()), source, taker) is leaves


def test_a_wire_may_lead_from_an_outer_loop_into_an_inner_one_and_not_back():
    prompt = {
        "outer": node(START), "a": node("A", x=["outer", 0]), "inner": node(START, y=["a", 0]),
        "b": node("B", x=["inner", 0]), "closed": node(END, output_value=["b", 0]),
        "c": node("C", x=["closed", 0]), "end": node(END, output_value=["c", 0]),
    }
    graph = Graph(prompt, Registry())
    assert not leaves_loop(graph, ("a", 0), "b")
    assert leaves_loop(graph, ("b", 0), "c")
    assert not leaves_loop(graph, ("closed", 0), "c")


def test_the_turns_of_a_loop_are_kept_where_its_user_asked_for_it():
    kept, plain = (Graph(looped(is_kept), Registry()) for is_kept in (True, False))
    assert keeps_iterations(kept, "5") and not keeps_iterations(kept, "1")
    assert not keeps_iterations(plain, "5")


def test_a_class_that_is_only_called_like_one_of_comfyuis_begins_no_loop():
    prompt = {"1": node("StartLoop", cache_iterations=True), "2": node("A", x=["1", 0])}
    graph = Graph(prompt, Registry())
    assert not leaves_loop(graph, ("1", 0), "1") and not keeps_iterations(graph, "2")


def test_a_wire_never_leads_from_one_loop_into_the_next():
    prompt = {
        "one": node(START), "a": node("A", x=["one", 0]), "end": node(END, output_value=["a", 0]),
        "two": node(START, y=["end", 0]), "b": node("B", x=["two", 0]),
    }
    graph = Graph(prompt, Registry())
    assert leaves_loop(graph, ("a", 0), "b") and not leaves_loop(graph, ("end", 0), "b")
