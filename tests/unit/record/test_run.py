"""Memory in the record of a run: which node it counts for, on which device, and how sure it is."""

from headroom.host.types import NodeLabel
from headroom.measure.strain import Strain
from headroom.record.memory import Reading, Use
from headroom.record.nodes import NodeTable
from headroom.record.run import Run
from headroom.record.run_json import run_json

MIB = 1024 * 1024


class Torch:
    """torch's allocator on one device, with 100 MiB beside it."""

    def __init__(self, counts=True, total=8192):
        self.reserved = self.peak = 0
        self.total = total
        self.counts = counts

    def take(self, mib):
        self.reserved += mib
        self.peak = max(self.peak, self.reserved)
        return self

    def give_back(self, mib):
        self.reserved -= mib
        return self

    def begin_again(self):
        self.peak = self.reserved
        return self

    def use(self, begins_again):
        peak = self.peak * MIB if self.counts else None
        use = Use((100 + self.reserved) * MIB, self.reserved * MIB, peak, self.total * MIB,
                  begins_again=begins_again and self.counts)
        return self.begin_again() and use if begins_again else use


def at(seconds, *torches, rss_mib=7):
    """A reading at the boundary of a node."""
    return Reading(seconds, rss_mib * MIB, tuple(torch.use(True) for torch in torches))


def amid(seconds, *torches):
    """A reading while a node runs."""
    return Reading(seconds, 7 * MIB, tuple(torch.use(False) for torch in torches))


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
    run.observe(amid(2, torch.take(900)))
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


def test_readings_amid_a_node_take_nothing_from_its_peak():
    torch = Torch()
    run = begun(torch)
    run.node_starts("1", at(1, torch))
    run.observe(amid(2, torch.take(508).give_back(508)))
    run.observe(amid(3, torch.take(200)))
    run.node_finishes("1", at(4, torch.give_back(200)))
    run.node_starts("2", at(5, torch))
    run.node_finishes("2", at(6, torch.take(50)))
    assert peak(nodes(run)["1"]) == (608, 608)
    assert peak(nodes(run)["2"]) == (150, 150)


def test_a_peak_may_belong_to_any_node_since_the_reading_before():
    torch = Torch()
    run = begun(torch)
    first = at(1, torch)
    run.node_starts("1", first)
    run.node_finishes("1", first, 1.001)
    run.node_starts("2", first, 1.002)
    run.observe(amid(2, torch.take(508).give_back(308)))
    run.node_finishes("2", at(3, torch.take(900)))
    run.node_starts("3", at(3, torch))
    run.node_finishes("3", at(4, torch))
    found = nodes(run)
    assert found["1"]["spans"] == [[1, 1.001]] and found["2"]["spans"] == [[1.002, 3]]
    assert peak(found["1"]) == (100, 608)
    assert peak(found["2"]) == (1200, 1200)
    assert peak(found["3"]) == (1200, 1200)
    assert peak(run_json(run, 5)) == (1200, 1200)


def test_a_node_has_nothing_of_what_the_next_one_takes():
    torch = Torch()
    run = begun(torch)
    run.node_starts("1", at(1, torch))
    between = at(2, torch)
    run.node_finishes("1", between)
    run.node_starts("2", between, 2.0001)
    run.node_finishes("2", at(3, torch.take(508).give_back(508)))
    assert peak(nodes(run)["1"]) == (100, 100)
    assert peak(nodes(run)["2"]) == (608, 608)


def test_the_only_node_since_the_last_reading_has_its_peak():
    torch = Torch()
    run = begun(torch)
    before = at(1, torch)
    run.node_starts("1", before, 1.0004)
    run.node_finishes("1", at(2, torch.take(508).give_back(508)))
    assert peak(nodes(run)["1"]) == (608, 608)


def test_nodes_that_ran_side_by_side_all_the_time_have_the_same_peak():
    torch = Torch()
    run = begun(torch)
    run.nodes = NodeTable(lambda node_id: NodeLabel(node_id, "Kind", "Title", node_id, None, True))
    run.node_starts("1", at(1, torch))
    run.node_starts("2", at(2, torch))
    run.node_finishes("1", at(3, torch.take(508).give_back(508)))
    run.node_finishes("2", at(4, torch))
    assert peak(nodes(run)["1"]) == peak(nodes(run)["2"]) == (608, 608)


def test_no_peak_is_said_to_be_above_the_size_of_the_card():
    torch = Torch()
    run = begun(torch)
    run.observe(amid(1, torch.take(8150).give_back(8150)))
    assert peak(run_json(run, 2)) == (8192, 8192)


def test_a_reading_that_serves_again_after_a_later_one_counts_once():
    torch = Torch().take(800)
    run = begun(torch)
    first = at(1, torch)
    run.node_starts("1", first)
    run.observe(amid(2, torch.give_back(800)))
    run.node_finishes("1", at(3, torch))
    run.node_starts("2", first, 3.1)
    run.node_finishes("2", at(4, torch))
    found = run_json(run, 5, with_samples=True)
    assert found["samples"]["vram_mib"] == [900, 900, 100, 100, 100]


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


def test_memory_that_spilled_while_a_node_ran_is_in_its_entry_and_in_a_sentence():
    run = begun(torch := Torch().take(100))
    run.node_starts("1", at(1, torch))
    run.observe(at(2, torch)._replace(strain=Strain(1240 * MIB, 5, 100 * MIB)))
    run.node_finishes("1", at(3, torch)._replace(strain=Strain(40 * MIB, 5, 300 * MIB)))
    run.node_starts("2", at(3, torch))
    run.node_finishes("2", at(4, torch)._replace(strain=Strain(63 * MIB, 5, 300 * MIB)))
    found = run_json(run, 5)
    node = found["nodes"][0]
    assert (node["spilled_mib"], node["read_mib"]) == (1240, 200)
    (spilled,) = found["spilled"]
    name = f"{node['title']} #1"
    assert (spilled["node_id"], spilled["text"]) == ("1", f"spilled 1,240.0 MiB while {name} ran")


def test_the_fullest_device_is_the_one_with_the_largest_share_in_use():
    first, second = Torch().take(2500), Torch(total=4096).take(2000)
    assert run_json(begun(first, second), 1)["device"] == "cuda:1"
    second.total = 8192
    assert run_json(begun(first, second), 1)["device"] == "cuda:0"


def test_a_device_that_is_not_in_use_has_no_figures_until_it_is():
    run = Run("p", ("cuda:0", "cuda:1"), Reading(0, 0, (Torch().use(True), Use())), 0.0,
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
