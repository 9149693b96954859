"""The loop of a farm on servers that a test plays, without Ray and without HTTP."""


import pytest
from support.played_farm import Farm, asked, finished

from farm import outputs
from farm.driver import REPEATS
from farm.verdict import Limits
from farm.words import Facts, FarmError, Outcome


def test_every_prompt_is_finished_once_and_those_too_large_for_small_servers_on_the_large_one(
    tmp_path,
):
    farm = Farm(tmp_path, {"small": 200, "middle": 400, "large": 4000})
    prompts = [asked(n, (100, 300, 3000)[n % 3]) for n in range(60)]
    counts = farm.run(prompts)
    assert counts.finished == 60 and counts.failed == 0
    assert finished(tmp_path) == sorted(one.key for one in prompts)
    assert {farm.server_of(one) for one in prompts[2::3]} == {"large"}
    assert "small" not in {farm.server_of(one) for one in prompts[1::3]}
    assert len(farm.played.orders) <= 60 + 4  # each kind taught each small server's size once


def test_a_finished_prompt_is_not_run_again_after_a_restart(tmp_path):
    prompts = [asked(n) for n in range(5)]
    Farm(tmp_path, {"a": 1000}).run(prompts[:3])
    farm = Farm(tmp_path, {"a": 1000})
    counts = farm.run(prompts)
    assert (counts.finished, counts.finished_before) == (2, 3)
    assert [order.asked.name for _, order in farm.played.orders] == ["p3", "p4"]


def test_a_result_in_place_counts_even_where_the_ledger_was_lost(tmp_path):
    prompts = [asked(n) for n in range(3)]
    Farm(tmp_path, {"a": 1000}).run(prompts)
    (tmp_path / "ledger.jsonl").unlink()
    assert Farm(tmp_path, {"a": 1000}).run(prompts).finished_before == 3


def test_the_same_prompt_asked_for_twice_runs_once(tmp_path):
    farm = Farm(tmp_path, {"a": 1000})
    assert farm.run([asked(1), asked(1), asked(1)]).finished == 1
    assert len(farm.played.orders) == 1


def test_a_generator_that_repeats_the_same_prompts_for_ever_ends_once_they_are_finished(tmp_path):
    def for_ever():
        for number in range(10 * REPEATS):
            yield asked(number % 3)
        pytest.fail("the farm reads for ever and does nothing else")

    farm = Farm(tmp_path, {"a": 1000})
    counts = farm.run(for_ever())
    assert counts.finished == 3
    assert any("were all read before" in line for line in farm.heard.lines)


def test_after_a_crash_of_the_driver_the_server_is_asked_under_the_same_id(tmp_path):
    class Crash(Exception):
        pass

    def crash(server, order):
        if order is not None:
            raise Crash

    farm = Farm(tmp_path, {"a": 1000, "b": 1000}, crash)
    with pytest.raises(Crash):
        farm.run([asked(1)])
    [(first, begun)] = farm.played.orders
    again = Farm(tmp_path, {"a": 1000, "b": 1000})
    again.run([asked(1)])
    [(server, order)] = again.played.orders
    assert (server, order.prompt_id, order.resumes) == (first, begun.prompt_id, True)
    assert not begun.resumes


def test_a_prompt_whose_server_is_not_in_the_farm_any_more_goes_elsewhere(tmp_path):
    lost = Farm(tmp_path, {"a": 1000}, lambda server, order: order and Outcome("lost"),
                limits=Limits(lost=0))
    assert lost.run([asked(1)]).failed == 1
    farm = Farm(tmp_path, {"b": 1000})
    assert farm.run([asked(1)]).finished == 1


def test_a_lost_servers_prompt_is_finished_elsewhere_and_forgotten_there(tmp_path):
    lost = []

    def script(server, order):
        if server == "a" and order is not None and not lost:
            lost.append(order.prompt_id)
            return Outcome("lost", "killed")
        return None

    farm = Farm(tmp_path, {"a": 1000, "b": 1000}, script)
    counts = farm.run([asked(n) for n in range(8)])
    assert (counts.finished, counts.lost) == (8, 1)
    assert farm.played.starts["a"] == 2
    assert any("a is away: killed" in line for line in farm.heard.lines)
    again = [order for server, order in farm.played.orders if server == "a"][1:]
    same = [order for order in again if order.prompt_id == lost[0]]
    forgot = [order for order in again if lost[0] in order.abandoned]
    assert same and same[0].resumes or forgot


def test_an_actor_that_dies_is_a_lost_server(tmp_path):
    died = []

    def script(server, order):
        if order is not None and not died:
            died.append(1)
            return RuntimeError("The actor died.")
        return None

    farm = Farm(tmp_path, {"a": 1000}, script)
    assert farm.run([asked(1)]).finished == 1
    assert farm.driver.counts.lost == 1


def test_a_prompt_finished_elsewhere_meanwhile_keeps_its_first_result(tmp_path):
    farm = Farm(tmp_path, {"a": 1000})
    one = asked(1)

    def script(server, order):
        if order is not None:
            folder = tmp_path / "elsewhere"
            outputs.bring(farm.played, {"outputs": {}}, folder, {"server": "first"})
            outputs.commit(folder, tmp_path / one.key)
        return None

    farm.played.script = script
    assert farm.run([one]).finished == 1
    assert farm.server_of(one) == "first"


def test_a_rescued_kind_is_guarded_from_the_start_where_it_must_be(tmp_path):
    farm = Farm(tmp_path, {"a": 1000}, rescues=True)
    counts = farm.run([asked(n, 1500) for n in range(4)])
    assert (counts.finished, counts.rescued) == (4, 4)
    assert [order.guard for _, order in farm.played.orders] == [False, True, True, True]


def test_moving_instead_of_rescuing_still_rescues_on_the_largest(tmp_path):
    farm = Farm(tmp_path, {"a": 1000, "b": 2000}, rescues=True, after_oom="move")
    counts = farm.run([asked(1, 1500), asked(2, 3500)])
    assert (counts.finished, counts.rescued) == (2, 1)
    assert farm.server_of(asked(1, 1500)) == "b"


def test_what_fits_nowhere_fails_with_its_reason_and_the_others_finish(tmp_path):
    farm = Farm(tmp_path, {"a": 1000, "b": 2000})
    counts = farm.run([asked(1, 9000), asked(2, 100), asked(3, 9000)])
    assert (counts.finished, counts.failed) == (1, 2)
    assert "out of memory on b" in farm.driver.failures["p1"]
    assert len(farm.played.orders) <= 5


def test_a_failed_prompt_is_tried_again_by_the_next_run_of_the_farm(tmp_path):
    failing = Farm(tmp_path, {"a": 1000}, lambda s, order: order and Outcome("error", "x", Facts()))
    assert failing.run([asked(1)]).failed == 1
    assert Farm(tmp_path, {"a": 1000}).run([asked(1)]).finished == 1


@pytest.mark.parametrize("room_mib", [50, 900])
def test_no_room_takes_the_prompt_elsewhere_and_never_for_ever(tmp_path, room_mib):
    def script(server, order):
        if order is not None and order.room_mib and server == "a":
            return Outcome("no room", facts=Facts(1000, room_mib, True))
        return None

    farm = Farm(tmp_path, {"a": 1000}, script)
    assert farm.run([asked(n, 100) for n in range(4)]).finished == 4


def test_a_farm_without_any_server_says_so(tmp_path):
    farm = Farm(tmp_path, {"a": 1000}, lambda server, order: ConnectionError("no connection"))
    with pytest.raises(FarmError, match="No server of the farm can be had"):
        farm.run([asked(1)])
    assert farm.heard.lines == ["a is away: no connection"]


def test_one_unknown_server_among_others_is_told_and_tried_again_a_few_times(tmp_path):
    def script(server, order):
        return ConnectionError("no connection") if server == "b" else None

    farm = Farm(tmp_path, {"a": 1000, "b": 1000}, script)
    assert farm.run([asked(n) for n in range(300)]).finished == 300
    assert farm.played.starts["b"] == 5


def test_servers_that_all_went_away_for_good_end_the_farm(tmp_path):
    def script(server, order):
        return Outcome("lost", "gone") if order is not None else (
            None if farm.played.starts[server] == 1 else ConnectionError("gone"))

    farm = Farm(tmp_path, {"a": 1000}, script)
    with pytest.raises(FarmError, match="No server"):
        farm.run([asked(1)])


def test_results_that_cannot_be_kept_end_the_farm_with_a_sentence(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("farm.driver.outputs.commit", full)
    with pytest.raises(FarmError, match="cannot be kept in .*No space left"):
        Farm(tmp_path, {"a": 1000}).run([asked(1)])


def test_a_generator_without_end_is_read_as_it_is_needed(tmp_path):
    read = []

    def endless():
        for n in range(5000):
            read.append(n)
            yield asked(n)

    class Enough(Exception):
        pass

    def script(server, order):
        if len(farm.played.orders) > 20:
            raise Enough
        return None

    farm = Farm(tmp_path, {"a": 1000}, script)
    with pytest.raises(Enough):
        farm.run(endless())
    assert len(read) < 1100
