"""A batch: `farm run` on a door of its own, with servers that compute nothing."""

import pytest

pytest.importorskip("starlette", reason="needs ray[serve]: pip install -r farm/requirements.txt")

from support.played_farm import Farm, asked, finished  # noqa: E402

from farm import outputs  # noqa: E402
from farm.client import REPEATS  # noqa: E402
from farm.verdict import Limits  # noqa: E402
from farm.words import Facts, FarmError, Outcome  # noqa: E402
from farm.worker import ServerFailed  # noqa: E402


@pytest.fixture
def farm(tmp_path, monkeypatch):
    monkeypatch.setattr("farm.client.LOOK_SECONDS", 0.02)
    monkeypatch.setattr("farm.seat.AGAIN_SECONDS", (0.05, 0.1))
    made = []

    def make(sizes, *script, **options):
        made.append(Farm(tmp_path, sizes, *script, **options))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def test_every_prompt_is_finished_once_and_those_too_large_for_small_servers_on_the_large_one(
    farm, tmp_path,
):
    three = farm({"small": 200, "middle": 400, "large": 4000}, after_oom="move")
    prompts = [asked(n, (100, 300, 3000)[n % 3]) for n in range(60)]
    counts = three.run(prompts)
    assert counts.finished == 60 and counts.failed == 0
    assert finished(tmp_path) == sorted(one.key for one in prompts)
    assert {three.server_of(one) for one in prompts[2::3]} == {"large"}
    assert "small" not in {three.server_of(one) for one in prompts[1::3]}
    assert len(three.orders) <= 60 + 4  # each kind taught each small server's size once


def test_a_result_in_place_counts_even_where_the_store_was_lost(farm, tmp_path):
    prompts = [asked(n) for n in range(3)]
    farm({"a": 1000}).run(prompts)
    for path in tmp_path.glob("farm.sqlite*"):
        path.unlink()
    assert farm({"a": 1000}).run(prompts).finished_before == 3


def test_a_generator_that_repeats_the_same_prompts_for_ever_ends_once_they_are_finished(farm):
    def for_ever():
        for number in range(10 * REPEATS):
            yield prompts[number % 3]
        pytest.fail("the farm reads for ever and does nothing else")

    prompts, one = [asked(n) for n in range(3)], farm({"a": 1000})
    assert one.run(for_ever()).finished == 3
    assert any("were all read before" in line for line in one.heard.lines)


def test_a_prompt_whose_server_is_not_in_the_farm_any_more_goes_elsewhere(farm):
    lost = farm({"a": 1000}, lambda server, order: order and Outcome("lost"),
                limits=Limits(lost=0))
    assert lost.run([asked(1)]).failed == 1
    assert farm({"b": 1000}).run([asked(1)]).finished == 1


def test_a_lost_servers_prompt_is_finished_elsewhere_and_forgotten_there(farm):
    lost = []

    def script(server, order):
        if server == "a" and order is not None and not lost:
            lost.append(order.prompt_id)
            return Outcome("lost", "killed")
        if server == "a" and order is not None:
            two.comfies["b"].goes_on.set()
        return None

    two = farm({"a": 1000, "b": 1000}, script)
    two.comfies["b"].goes_on.clear()  # until the other one is back and works
    counts = two.run([asked(n) for n in range(8)])
    assert (counts.finished, counts.lost) == (8, 1)
    assert two.starts["a"] == 2
    assert any("a is away: killed" in line for line in two.heard.lines)
    again = [order for server, order in two.orders if server == "a"][1:]
    same = [order for order in again if order.prompt_id == lost[0]]
    forgot = [order for order in again if lost[0] in order.abandoned]
    assert same and same[0].resumes or forgot


def test_a_prompt_finished_elsewhere_meanwhile_keeps_its_first_result(farm, tmp_path):
    one = asked(1)

    def script(server, order):
        if order is not None:
            folder = tmp_path / "elsewhere"
            folder.mkdir()
            (folder / outputs.RESULT).write_text('{"server": "first"}')
            outputs.commit(folder, tmp_path / one.key)

    farm_of_one = farm({"a": 1000}, script)
    assert farm_of_one.run([one]).finished == 1
    assert farm_of_one.server_of(one) == "first"


def test_files_that_their_server_has_no_more_are_made_again_and_not_for_ever(farm):
    one = farm({"a": 1000})
    comfy = one.comfies["a"]
    comfy.files = type("Lossy", (dict,), {"__setitem__": lambda *_: None})()
    assert one.run([asked(1)]).failed == 1
    assert "does not give its files" in one.heard.lines[-1] and len(one.orders) == 3
    comfy.files = {}
    assert one.run([asked(1)]).finished == 1


def test_a_rescued_kind_is_guarded_from_the_start_where_it_must_be(farm):
    one = farm({"a": 1000})
    counts = one.run([asked(n, 1500) for n in range(4)])
    assert (counts.finished, counts.rescued) == (4, 4)
    assert [order.guard for _, order in one.orders] == [False, True, True, True]


def test_moving_instead_of_rescuing_still_rescues_on_the_largest(farm):
    two = farm({"a": 1000, "b": 2000}, after_oom="move")
    counts = two.run([asked(1, 1500), asked(2, 3500)])
    assert (counts.finished, counts.rescued) == (2, 1)
    assert two.server_of(asked(1, 1500)) == "b"


def test_a_prompt_that_fits_nowhere_fails_with_its_reason_and_the_others_finish(farm):
    two = farm({"a": 1000, "b": 2000})
    counts = two.run([asked(1, 9000), asked(2, 100), asked(3, 9000)])
    assert (counts.finished, counts.failed) == (1, 2)
    assert any("p1 failed: " in line and "on device" in line for line in two.heard.lines)
    assert len(two.orders) <= 5


def test_a_prompt_that_no_server_that_is_left_may_have_fails_and_does_not_wait_for_ever(farm):
    def script(server, order):
        if order is not None:
            return Outcome("error", "x", Facts()) if server == "a" else Outcome("lost", "gone")
        if server == "b" and two.starts["b"] > 1:
            raise ServerFailed("gone")
        return None

    two = farm({"a": 1000, "b": 1000}, script)
    assert two.run([asked(1)]).failed == 1
    assert "no server is left that may run it" in two.heard.lines[-1]


@pytest.mark.parametrize("room_mib", [50, 900])
def test_no_room_takes_the_prompt_elsewhere_and_never_for_ever(farm, room_mib):
    def script(server, order):
        if order is not None and order.room_mib and server == "a":
            return Outcome("no room", facts=Facts(1000, room_mib, True))
        return None

    assert farm({"a": 1000}, script).run([asked(n, 100) for n in range(4)]).finished == 4


def test_a_farm_without_any_server_says_so(farm):
    def script(server, order):
        raise ServerFailed("no connection")

    one = farm({"a": 1000}, script)
    with pytest.raises(FarmError, match="No server of the farm answers"):
        one.run([asked(1)])
    assert one.heard.lines == ["a is away: no connection"]


def test_one_unknown_server_among_others_is_told_once_and_the_others_do_the_work(farm):
    def script(server, order):
        if server == "b":
            raise ServerFailed("no connection")

    two = farm({"a": 1000, "b": 1000}, script)
    assert two.run([asked(n) for n in range(30)]).finished == 30
    assert two.heard.lines == ["b is away: no connection"]


def test_servers_that_all_went_away_for_good_end_the_farm(farm):
    def script(server, order):
        if order is not None:
            return Outcome("lost", "gone")
        if one.starts[server] > 1:
            raise ServerFailed("gone")
        return None

    one = farm({"a": 1000}, script)
    with pytest.raises(FarmError, match="No server"):
        one.run([asked(1)])


def test_results_that_cannot_be_kept_end_the_farm_with_a_sentence(farm, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("farm.client.outputs.commit", full)
    with pytest.raises(FarmError, match="cannot be kept in .*No space left"):
        farm({"a": 1000}).run([asked(1)])


def test_a_generator_without_end_is_read_as_it_is_needed(farm):
    read = []

    class Enough(Exception):
        pass

    def endless():
        for n in range(5000):
            read.append(n)
            yield asked(n)

    def enough(counts, states):
        if len(one.orders) > 20:
            raise Enough

    one = farm({"a": 1000})
    one.heard.changes = enough
    with pytest.raises(Enough):
        one.run(endless())
    assert len(read) < 1100
