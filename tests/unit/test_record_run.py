"""Memory in the record of a run: which node it counts for, on which device, and how sure it is."""

from headroom.host.types import NodeLabel
from headroom.record.memory import Reading, Use
from headroom.record.nodes import NodeTable
from headroom.record.run import Run
from headroom.record.run_json import run_json

MIB = 1024 * 1024


class Torch:
    """torch's allocator on one device, with 100 MiB beside it."""

    def __init__(self, counts=True, total=8192):
        self.reserved = self.returned = self.peak = 0
        self.total = total
        self.counts = counts

    def take(self, mib):
        self.reserved += mib
        self.peak = max(self.peak, self.reserved)
        return self

    def give_back(self, mib):
        self.reserved, self.returned = self.reserved - mib, self.returned + mib
        return self

    @property
    def use(self):
        returned = self.returned * MIB if self.counts else None
        return Use((100 + self.reserved) * MIB, self.reserved * MIB, returned, self.peak * MIB,
                   self.total * MIB)


def at(seconds, *torches, rss_mib=7):
    return Reading(seconds, rss_mib * MIB, tuple(torch.use for torch in torches))


def begun(*torches):
    def describe(node_id):
        return NodeLabel(node_id, "Kind", "Title", node_id)

    devices = tuple(f"cuda:{index}" for index in range(len(torches)))
    return Run("p", devices, at(0, *torches), 0.0, NodeTable(describe))


def nodes(run):
    return {node["node_id"]: node for node in run_json(run, 99.0)["nodes"]}


def peak(part):
    return part["peak_vram_mib"], part["peak_vram_at_most_mib"]


def test_memory_before_and_after_are_those_at_the_ends_and_the_peak_lies_between():
    torch = Torch()
    run = begun(torch)
    run.node_starts("1", at(1, torch))
    run.observe(at(2, torch.take(900)))
    run.node_finishes("1", at(3, torch.give_back(700), rss_mib=9))
    node = nodes(run)["1"]
    assert (node["vram_before_mib"], node["vram_after_mib"]) == (100, 300)
    assert peak(node) == (1000, 1000)
    assert (node["rss_before_mib"], node["rss_after_mib"]) == (7, 9)


def test_a_short_peak_below_the_largest_ever_is_exact_when_it_stayed_reserved():
    torch = Torch().take(5000).give_back(5000)
    run = begun(torch)
    run.node_starts("1", at(1, torch))
    run.node_finishes("1", at(2, torch.take(508)))
    run.node_starts("2", at(3, torch.give_back(508)))
    run.node_finishes("2", at(4, torch))
    assert peak(nodes(run)["1"]) == (608, 608)
    assert peak(nodes(run)["2"]) == (100, 100)


def test_a_short_peak_that_was_given_back_at_once_is_bounded():
    torch = Torch().take(5000).give_back(5000)
    run = begun(torch)
    run.node_starts("1", at(1, torch))
    run.node_finishes("1", at(2, torch.take(508).give_back(508)))
    assert peak(nodes(run)["1"]) == (100, 608)
    assert peak(run_json(run, 3)) == (100, 608)


def test_a_later_higher_use_makes_the_peak_of_the_node_exact_again():
    torch = Torch().take(5000).give_back(4000)
    run = begun(torch)
    run.node_starts("1", at(1, torch))
    run.observe(at(2, torch.give_back(1000)))
    run.node_finishes("1", at(3, torch.take(3000)))
    assert peak(nodes(run)["1"]) == (3100, 3100)


def test_an_allocator_that_does_not_count_leaves_a_node_with_at_least():
    torch = Torch(counts=False).take(5000).give_back(5000)
    run = begun(torch)
    run.node_starts("1", at(1, torch))
    run.node_finishes("1", at(2, torch.take(508)))
    assert peak(nodes(run)["1"]) == (608, 5100)


def test_no_peak_is_said_to_be_above_the_size_of_the_card():
    torch = Torch(counts=False).take(8150).give_back(8150)
    run = begun(torch)
    run.observe(at(1, torch))
    assert peak(run_json(run, 2))[1] == 8192


def test_a_reading_from_before_a_node_began_does_not_count_for_it():
    torch = Torch()
    run = begun(torch)
    run.node_starts("1", at(5, torch))
    late = Reading(4, 0, (Use(900 * MIB, 800 * MIB, 0, 0),))
    run.observe(late)
    run.node_finishes("1", at(6, torch))
    assert peak(nodes(run)["1"]) == (100, 100)
    assert run_json(run, 7)["peak_vram_mib"] == 900


def test_every_device_has_its_figures_and_the_fullest_stands_for_the_run():
    first, second = Torch(), Torch(total=4096)
    run = begun(first, second)
    run.node_starts("1", at(1, first, second))
    run.node_finishes("1", at(2, first.take(1000), second.take(2000)))
    found = run_json(run, 3, with_samples=True)
    assert (found["device"], found["vram_total_mib"]) == ("cuda:1", 4096)
    assert peak(found) == (2100, 2100)
    assert [peak(device) for device in found["devices"]] == [(1100, 1100), (2100, 2100)]
    node = found["nodes"][0]
    assert (node["vram_before_mib"], node["vram_after_mib"]) == (100, 2100)
    assert [device["vram_after_mib"] for device in node["devices"]] == [1100, 2100]
    assert [device["device"] for device in node["devices"]] == ["cuda:0", "cuda:1"]
    assert found["samples"]["vram_mib"] == found["samples"]["devices"]["cuda:1"]
    assert max(found["samples"]["devices"]["cuda:0"]) == 1100


def test_fuller_is_measured_against_the_size_of_the_card():
    first, second = Torch().take(2500), Torch(total=4096).take(2000)
    assert run_json(begun(first, second), 1)["device"] == "cuda:1"
    second.total = 8192
    assert run_json(begun(first, second), 1)["device"] == "cuda:0"


def test_a_device_that_is_not_in_use_has_no_figures_until_it_is():
    run = Run("p", ("cuda:0", "cuda:1"), Reading(0, 0, (Torch().use, Use())), 0.0,
              NodeTable(lambda node_id: NodeLabel(node_id, "Kind", "Title", node_id)))
    assert peak(run_json(run, 1)["devices"][1]) == (None, None)
    run.observe(at(2, Torch(), Torch().take(3000)))
    assert peak(run_json(run, 3)["devices"][1]) == (3100, None)
    assert (run_json(run, 3)["device"], run_json(run, 3)["vram_total_mib"]) == ("cuda:1", 8192)


def test_a_cpu_server_has_no_vram_and_says_so():
    run = Run("p", (), Reading(0, 5 * MIB), 0.0, NodeTable(lambda node_id: NodeLabel(
        node_id, "Kind", "Title", node_id)))
    run.node_starts("1", Reading(1, 6 * MIB))
    run.node_finishes("1", Reading(2, 5 * MIB))
    found = run_json(run, 3, with_samples=True)
    assert (found["device"], found["vram_source"], found["devices"]) == ("cpu", None, [])
    assert peak(found) == peak(found["nodes"][0]) == (None, None)
    assert set(found["samples"]["vram_mib"]) == {None} and found["peak_rss_mib"] == 6


def test_a_reading_for_other_devices_than_the_runs_is_left_out():
    run = begun(Torch())
    run.observe(at(1, Torch().take(900), Torch()))
    assert run_json(run, 2)["peak_vram_mib"] == 100


def test_memory_that_could_not_be_read_is_unknown_and_what_follows_is_not_exact():
    torch = Torch()
    run = begun(torch)
    run.node_starts("1", at(1, torch))
    run.observe(Reading(2, None, (Use(),)))
    run.node_finishes("1", at(3, torch))
    assert peak(nodes(run)["1"]) == (100, None)
