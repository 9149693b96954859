"""Which server gets which prompt, and what follows an attempt."""

import pytest

from farm.needs import Need, Needs
from farm.placement import Queue, Server, Sizes, Waiting
from farm.prompts import asked_for
from farm.verdict import Limits, verdict
from farm.words import Facts, Outcome, Past


def asked(kind, seed=1, model="m.safetensors"):
    inputs = {"kind": kind, "seed": seed, "model": model}
    return asked_for(f"{kind}{seed}", {"1": {"class_type": "Fake", "inputs": inputs}})


def server(name, mib, room=None, models=frozenset({"m.safetensors"})):
    return Server(name, Facts(mib, mib if room is None else room, True), models)


SMALL, MIDDLE, LARGE = server("small", 1000), server("middle", 2000), server("large", 8000)
ALL = (SMALL, MIDDLE, LARGE)


def known(**needs):
    """Needs in which each kind has succeeded once with so many MiB."""
    found = Needs()
    for kind, mib in needs.items():
        found.learn(asked(kind).kind, "done", mib, 8000)
    return found


def short(room_mib):
    """Needs in which "b" ran out of memory with so much room."""
    found = Needs()
    found.learn(asked("b").kind, "out of memory", None, room_mib)
    return found


def queue(needs, *kinds):
    made = Queue(needs)
    for number, kind in enumerate(kinds):
        made.add(Waiting(asked(kind, number)))
    return made


def taken(made, to, others=ALL):
    found = made.take(to, Sizes(others))
    return None if found is None else found.asked.prompt["1"]["inputs"]["kind"]


# ---------------------------------------------------- needs


def test_a_success_lowers_the_enough_figure_and_a_failure_raises_the_short_one():
    needs = Needs()
    for mib in (5000, 3000, 4000):
        needs.learn("k", "done", mib, 8000)
    needs.learn("k", "out of memory", None, 1000)
    needs.learn("k", "out of memory", None, 500)
    assert needs.of("k") == Need(3000, 1000)
    fits = [needs.of("k").fit(mib) for mib in (500, 1000, 2000, 3000, None)]
    assert fits == ["too small", "too small", "may fit", "fits", "unknown"]


def test_a_run_that_needed_no_figure_sufficed_with_the_room_that_it_had():
    needs = Needs()
    needs.learn("k", "done", None, 2000)
    assert needs.of("k").fit(2000) == "fits"


def test_room_that_ran_out_is_too_small_even_where_a_figure_says_otherwise():
    needs = Needs()
    needs.learn("k", "done", 900, 8000)
    needs.learn("k", "out of memory", None, 1000)
    assert needs.of("k").fit(1000) == "too small"
    assert needs.of("k").fit(1100) == "fits"


def test_a_little_more_room_on_as_small_a_gpu_is_no_new_chance_but_on_a_larger_one_it_is():
    needs = Needs()
    needs.learn("k", "out of memory", None, 400, size_mib=1000)
    assert [needs.of("k").fit(500, size) for size in (500, 1000, 1001)] == [
        "too small", "too small", "may fit"]
    assert needs.of("k").fit(700, 1000) == "may fit"


def test_a_rescued_run_says_that_so_much_is_short_and_does_guarded():
    needs = Needs()
    needs.learn("k", "done", 900, 1000, rescued=True)
    assert needs.of("k").fit(1000) == "guarded"
    assert needs.of("k").fit(900) == "too small"
    assert needs.of("k").fit(2000) == "may fit"


@pytest.mark.parametrize("ending", ["error", "lost", "refused", "no room", "timeout"])
def test_other_endings_change_no_need(ending):
    needs = Needs()
    needs.learn("k", ending, None, 1000)
    assert not needs.of("k").is_known


# ---------------------------------------------------- placement


def test_a_kind_nobody_knows_is_tried_once_before_known_ones_and_not_twice_at_once():
    made = queue(known(a=500), "a", "new", "new", "a")
    assert [taken(made, SMALL) for _ in range(4)] == ["new", "a", "a", "new"]


def test_the_large_server_takes_first_what_only_it_can_run():
    made = queue(known(a=500, b=5000), "a", "b", "a", "b")
    assert [taken(made, LARGE) for _ in range(4)] == ["b", "b", "a", "a"]


def test_a_small_server_never_takes_what_was_short_on_as_much():
    made = queue(short(1000), "b")
    assert taken(made, SMALL) is None
    assert taken(made, MIDDLE) == "b"


def test_a_server_whose_room_is_taken_by_others_is_not_given_what_does_not_fit():
    made = queue(known(a=900), "a")
    made_for = server("small", 1000, room=100)
    found = made.take(made_for, Sizes([made_for, LARGE]))
    assert found is not None  # it may fit: what sufficed was an upper bound
    needs = known(a=900)
    needs.learn(asked("a").kind, "out of memory", None, 100)
    assert queue(needs, "a").take(made_for, Sizes([made_for, LARGE])) is None


def test_a_prompt_that_fits_nowhere_is_tried_on_the_largest_server():
    made = queue(short(9000), "b")
    assert taken(made, MIDDLE) is None
    assert taken(made, LARGE) == "b"


def test_no_server_counts_as_the_largest_while_a_larger_one_may_come():
    assert queue(short(9000), "b").take(LARGE, Sizes(ALL, may_come=True)) is None


def test_a_server_goes_on_with_the_models_that_it_has():
    needs = Needs()
    made = Queue(needs)
    for number, model in enumerate(("x.safetensors", "m.safetensors")):
        one = asked(f"k{number}", 1, model)
        needs.learn(one.kind, "done", 500, 8000)
        made.add(Waiting(one))
    assert made.take(SMALL, Sizes(ALL)).asked.models == {"m.safetensors"}


def test_prompts_of_a_kind_keep_their_order():
    made = queue(known(a=500), *["a"] * 5)
    found = [made.take(SMALL, Sizes(ALL)).asked.prompt["1"]["inputs"]["seed"] for _ in range(5)]
    assert found == [0, 1, 2, 3, 4]
    assert len(made) == 0 and made.take(SMALL, Sizes(ALL)) is None


def test_a_prompt_that_a_server_may_have_waits_for_it_and_is_its_first():
    made = queue(known(a=500), "a")
    made.add(Waiting(asked("a", 9), resumes_on="large"))
    assert made.take(SMALL, Sizes(ALL)).asked.name == "a0"
    assert made.take(SMALL, Sizes(ALL)) is None
    assert made.take(LARGE, Sizes(ALL)).asked.name == "a9"


def test_a_server_that_tells_no_room_gets_work_too():
    stock = Server("stock", Facts(None, None, False))
    assert queue(known(a=500), "a").take(stock, Sizes([stock])) is not None


# ---------------------------------------------------- verdict


def judged(ending, waiting=None, on=SMALL, servers=ALL, limits=None, short=None):
    waiting = waiting or Waiting(asked("a"))
    needs = Needs()
    if short is not None:
        needs.learn(waiting.asked.kind, "out of memory", None, short)
    return verdict(waiting, on, Outcome(ending, "why"), servers, needs, limits or Limits())


def test_after_out_of_memory_a_prompt_goes_to_a_larger_server_and_never_back():
    found = judged("out of memory", short=1000)
    assert found.past.not_on == ["small"]
    found = judged("out of memory", found, MIDDLE, short=2000)
    assert found.past.not_on == ["middle", "small"]
    found = judged("out of memory", found, LARGE, short=8000)
    assert found == "out of memory on large: why"


def test_out_of_memory_on_the_largest_of_equals_is_final():
    twins = [server("a", 1000), server("b", 1000)]
    assert isinstance(judged("out of memory", on=twins[0], servers=twins, short=1000), str)


def test_a_refusal_goes_to_servers_with_other_nodes_until_all_have_refused():
    found = judged("refused")
    found = judged("refused", found, MIDDLE)
    assert isinstance(found, Waiting)
    assert isinstance(judged("refused", found, LARGE), str)


def test_an_error_is_tried_once_more_elsewhere():
    found = judged("error")
    assert found.past.not_on == ["small"]
    assert isinstance(judged("error", found, MIDDLE), str)
    assert isinstance(judged("timeout", limits=Limits(errors=0)), str)


def test_an_error_on_the_only_server_is_tried_again_there():
    found = judged("error", servers=[SMALL])
    assert found.past.not_on == []
    assert isinstance(judged("error", found, servers=[SMALL]), str)


def test_a_prompt_that_takes_servers_down_is_given_up_in_the_end():
    found = judged("lost")
    for _ in range(2):
        assert found.past.not_on == []
        found = judged("lost", found)
    assert isinstance(judged("lost", found), str)


def test_a_users_interrupt_ends_a_prompt_and_no_room_is_no_attempt():
    assert isinstance(judged("interrupted"), str)
    found = judged("no room")
    assert found == Waiting(asked("a"), turned_away=1)


def test_a_prompt_that_waited_too_long_goes_before_one_that_suits_the_server_better():
    now = [0.0]
    rare = Waiting(asked("rare", model="other.safetensors"), since=0.0)
    needs = known(often=900)
    needs.learn(rare.asked.kind, "done", 900, 8000)
    made = Queue(needs, 60.0, lambda: now[0])
    too_large = Waiting(asked("huge"), past=Past(["small"]), since=-9.0)
    for waiting in (rare, too_large, *(Waiting(asked("often", n), since=1.0) for n in range(3))):
        made.add(waiting)
    assert taken(made, SMALL) == "often"
    now[0] = 60.5
    assert [taken(made, SMALL) for _ in range(3)] == ["rare", "often", "often"]
    assert taken(made, SMALL) is None
