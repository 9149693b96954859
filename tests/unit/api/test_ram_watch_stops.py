"""A prompt that nearly fills the RAM: when it is stopped, and that its record says who holds it."""

from types import SimpleNamespace

import pytest

from headroom.actions.make_room import Step
from headroom.api import ram_watch as watch_module
from headroom.api.gate import Gate
from headroom.api.ram_watch import RamWatch
from headroom.base.device import MIB

GIB = 2**30


class Falling:
    """A watch that stops prompts, on a clock that goes on by `each` with every reading."""

    def __init__(self, state, wanted_mib, each=0.25, stops=lambda node: True):
        self.state, self.each, self.looks, self.gained_mib = state, each, -1, 0
        self.stops, self.trims = [], 0

        def stop(node):
            self.stops.append((node, state["room"] // MIB))
            return stops(node)

        self.watch = RamWatch(Gate(lambda: True, lambda: True), None, lambda: [{}],
                              wanted_mib * MIB, stop)

    def trim(self):
        self.trims += 1
        self.state["room"] += self.gained_mib * MIB
        return Step("ram heap", "freed") if self.gained_mib else None

    def node(self, node_id, rooms_mib, prompt_id="p", kind="room"):
        """Run a node while so much is left of RAM, or of swap, at one reading after the other."""
        self.watch.before_node(prompt_id, node_id)
        for mib in rooms_mib:
            self.state[kind] = mib * MIB
            self.looks += 1
            self.watch.look_amid()
        return [room for _, room in self.stops]

    def nodes(self, rooms_mib):
        """Run nodes that each take one reading."""
        for mib in rooms_mib:
            self.node("5", [mib])
        return [room for _, room in self.stops]

    @property
    def stopped(self):
        return [node.node_id for node, _ in self.stops]


@pytest.fixture
def falling(monkeypatch, spared):
    def make(wanted_mib, **how):
        made = Falling(spared, wanted_mib, **how)
        monkeypatch.setattr(watch_module.time, "monotonic", lambda: made.looks * made.each)
        monkeypatch.setattr(watch_module, "trim", made.trim)
        return made

    return make


def test_a_prompt_is_stopped_once_when_ram_keeps_falling_below_what_is_to_stay_free(falling):
    fall = falling(1000)
    fall.node("4", [4000])
    assert fall.node("5", range(3000, 0, -250)) == [500]
    assert fall.stops[0][0] == ("p", "5", 3500 * MIB)


def test_a_node_after_one_that_caught_the_interrupt_is_stopped_as_well(falling):
    """Many nodes of packs log any error and go on."""
    fall = falling(1000)
    fall.node("5", range(3000, 250, -250))
    fall.node("6", range(500, 0, -100))
    assert fall.stopped == ["5", "6"]


def test_a_prompt_that_the_system_can_carry_on_with_swap_is_stopped_only_when_that_runs_out_too(
    falling, spared
):
    spared["swap"] = 8000 * MIB
    assert falling(1000, each=0.05).nodes(range(3000, 0, -50)) == []
    left, spared["room"] = [], 50 * MIB
    fall = falling(1000, stops=lambda node: left.append(spared["swap"] // MIB) or True)
    fall.node("5", range(3000, -1, -50), kind="swap")
    assert fall.stopped == ["5"] and 0 < left[0] < 200  # what is taken in a second


@pytest.mark.parametrize("rooms, stopped_at", [
    (range(600, 0, -10), [50]),  # 200 MiB a second, in a container of 600 MiB
    (range(600, 90, -10), []),  # which ends in time
    (range(8000, 0, -50), [250]),  # frames that come at 1 GiB a second
    ([600, 600, *[200] * 20], []),  # one allocation
    ([room for room in range(600, 0, -12) for _ in "12"], [24]),  # a piece at every other look
])
def test_where_ram_falls_fast_a_prompt_is_stopped_above_the_ram_to_keep_free(
    falling, rooms, stopped_at
):
    assert falling(12, each=0.05).nodes(rooms) == stopped_at


def test_where_readings_come_late_a_prompt_is_stopped_earlier(falling):
    """80 MiB a second, on a processor that so many want that 50 ms become 250."""
    assert falling(12, each=0.25).nodes(range(600, 0, -20)) == [40]


def test_a_prompt_goes_on_if_trimming_the_heap_freed_enough(falling):
    fall = falling(1000, each=0.05)
    fall.gained_mib = 500
    assert fall.nodes([*range(1050, 950, -10), *[1400] * 5]) == []
    assert falling(1000, each=0.05).nodes(range(1050, 0, -20)) != []


def test_a_prompt_after_a_stopped_one_begins_with_a_trimmed_heap_and_a_fall_of_its_own(falling):
    """The stopped prompt's memory is free in the heap, but the system still counts it as used."""
    fall = falling(12, each=0.05)
    for prompt_id, rooms, trims in (("large", range(600, 30, -20), 1), ("small", [16] * 3, 2),
                                    ("small", [16], 2)):
        fall.watch.before_prompt()
        fall.node("5", rooms, prompt_id)
        fall.watch.prompt_is_over()
        assert [node.prompt_id for node, _ in fall.stops] == ["large"] and fall.trims == trims


def test_ram_that_a_load_took_does_not_stop_the_node_after_it(monkeypatch, falling, spared):
    monkeypatch.setattr(watch_module, "loading_nodes", lambda prompt: {"1"})
    monkeypatch.setattr(watch_module, "load_bytes", lambda prompt, node_id: 0)
    fall, spared["room"] = falling(1000, each=0.05, stops=lambda node: node.node_id != "1"), GIB
    fall.watch.before_prompt()
    fall.node("1", range(1200, 440, -150))
    fall.stops.clear()
    assert fall.node("2", [448, 447, 446]) == []
    fall.node("3", range(440, 100, -60))
    stop = fall.stops[0][0]
    assert stop.node_id == "3" and stop.taken_bytes < 400 * MIB


def test_between_two_nodes_nothing_is_stopped(monkeypatch, falling, spared):
    """The reading of a load that has just ended belongs to that load, and not to the next node."""
    monkeypatch.setattr(watch_module, "loading_nodes", lambda prompt: {"1"})
    fall, spared["room"] = falling(1000, each=0.05, stops=lambda node: node.node_id != "1"), GIB
    fall.watch.before_prompt()
    fall.node("1", range(1200, 440, -150))
    fall.stops.clear()

    def beside(work, *given):
        for mib in (300, 150):  # readings while room is made
            spared["room"] = mib * MIB
            fall.looks += 1
            fall.watch.look_amid()

    monkeypatch.setattr(fall.watch, "_at_loads", SimpleNamespace(call=beside))
    assert fall.node("2", []) == []


def test_after_a_prompt_that_nearly_filled_the_ram_its_record_says_who_holds_it(
    monkeypatch, spared
):
    held = {"models": []}
    seldom = SimpleNamespace(now=lambda _: held)
    monkeypatch.setattr(watch_module, "ram_total_bytes", lambda: 1000 * MIB)
    found = RamWatch(Gate(lambda: True, lambda: True), None, list, 5 * MIB)
    found._held = seldom

    def prompt(*rooms_mib):
        found.before_prompt()
        found.before_node("p", "1")
        for room in rooms_mib:
            spared["room"] = room * MIB
            found.look_amid()
        return found.after_prompt()

    assert prompt(500, 100, 500) is None
    assert prompt(500, 99, 500) == ("p", (99 * MIB, 1000 * MIB), held)
    assert found.after_prompt() is None and prompt() is None
    seldom.now = lambda _: None  # it was looked up a moment ago
    assert prompt(99) == ("p", (99 * MIB, 1000 * MIB), None)
