"""What is missing after a failure, and the steps that are taken for it: none that cannot help."""

import pytest
import torch

from headroom.guard import ladder as oom_ladder
from headroom.guard.choose import RecoveryStep, choose
from headroom.guard.errors import OomGuardError
from headroom.guard.failure import Failure
from headroom.guard.ladder import Ladder, guarded
from headroom.guard.shortage import Shortage, full_device, shortage_of
from headroom.measure.snapshot import DeviceMemory, Snapshot

MIB = 1 << 20
GPU = torch.device("cuda:0")


class Step(RecoveryStep):
    def __init__(self, name, spares, seconds=0.0, is_exact=True):
        self.name, self._spares, self._seconds = name, spares, seconds
        self.is_exact = is_exact

    def spares(self, shortage):
        return self._spares

    def seconds(self, shortage):
        return self._seconds

    def take(self, shortage, tries_left):
        self._spares = 0
        return f"did {self.name}"


def chosen(steps, missing, prefer="same bits"):
    shortage = Shortage("device", GPU, missing_bytes=missing)
    return [step.name for step in choose(steps, shortage, prefer)]


def test_a_step_that_cannot_spare_what_is_missing_is_passed_over():
    assert chosen([Step("little", 75_000), Step("much", 200 * MIB)], 128 * MIB) == ["much"]


def test_steps_are_taken_together_where_only_their_sum_is_enough():
    steps = [Step("a", 40 * MIB), Step("b", 60 * MIB), Step("c", 50 * MIB)]
    assert chosen(steps, 100 * MIB) == ["a", "b"]
    assert chosen(steps, 120 * MIB) == ["a", "b", "c"]


def test_everything_is_taken_at_once_where_nothing_seems_enough():
    assert chosen([Step("a", 40 * MIB), Step("idle", 0), Step("b", 60 * MIB)], 500 * MIB) == [
        "a", "b"]


def test_what_keeps_every_bit_comes_before_what_does_not():
    steps = [Step("a", 40 * MIB), Step("split", 500 * MIB, is_exact=False), Step("b", 70 * MIB)]
    assert chosen(steps, 60 * MIB) == ["b"]
    assert chosen(steps, 100 * MIB) == ["a", "b"]
    assert chosen(steps, 200 * MIB) == ["split"]


def test_speed_takes_the_way_that_costs_least():
    steps = [Step("stream", 500 * MIB, seconds=2.0),
             Step("split", 500 * MIB, seconds=0.1, is_exact=False)]
    assert chosen(steps, 60 * MIB, "speed") == ["split"]
    assert chosen(steps, 60 * MIB, "same bits") == ["stream"]


def test_one_after_the_other_where_nobody_can_tell_what_is_missing():
    assert chosen([Step("idle", 0), Step("a", 75_000), Step("b", 1 << 30)], None) == ["a"]


def test_where_nothing_else_can_be_done_the_call_is_tried_again_once_all_the_same():
    class Tidying(Step):
        is_tidying = True

    steps = [Tidying("return", 0), Step("idle", 0)]
    assert chosen(steps, 60 * MIB) == ["return"]
    hopeless = Shortage("device", GPU, missing_bytes=60 * MIB, lacking_bytes=1)
    assert choose(steps, hopeless, "same bits") == []
    steps[0].is_spent = True
    assert chosen(steps, 60 * MIB) == []


def memory(free, allocated, reserved, pages=None, name="cuda:0", total=1000):
    device = DeviceMemory(name, "a card", total * MIB, free * MIB, allocated * MIB,
                          reserved * MIB, None if pages is None else pages * MIB)
    return Snapshot((device,), 0, 0)


def failed(asked, at_failure, held, text="CUDA out of memory. Tried to allocate {} MiB."):
    return Failure.of(torch.OutOfMemoryError(text.format(f"{asked}.00")), at_failure, held)


def test_what_a_call_held_and_what_it_asked_for_is_what_it_needs():
    at_failure = memory(free=50, allocated=800, reserved=900)
    held = memory(free=50, allocated=780, reserved=900)  # 20 MiB were garbage
    clean = memory(free=600, allocated=400, reserved=400)
    found = shortage_of(failed(300, at_failure, held), [GPU], clean)
    assert found.missing_bytes == (300 - 70) * MIB
    assert found.room_bytes == 600 * MIB
    assert found.need_bytes == (530 + 300) * MIB
    assert found.garbage_bytes == 20 * MIB  # of the 550 that came back, not the call's own
    assert found.share_of(8) == int(8 * 600 / 830)


def test_a_call_is_hopeless_when_its_very_tensors_leave_too_little_for_what_it_asked_for():
    held = memory(free=40, allocated=800, reserved=900)
    clean = memory(free=600, allocated=400, reserved=400)
    for asked, is_hopeless in ((200, False), (201, True)):
        found = shortage_of(failed(asked, held, held), [GPU], clean)
        assert found.missing_bytes > 0 and found.is_hopeless == is_hopeless
    assert not shortage_of(failed(300, held, held, "out of memory"), [GPU], clean).is_hopeless


def test_pages_of_dynamic_vram_can_go_between_two_calls_but_not_in_one():
    held = memory(free=0, allocated=500, reserved=500, pages=400)
    clean = memory(free=500, allocated=100, reserved=100, pages=300)
    found = shortage_of(failed(64, held, held), [GPU], clean)
    assert found.missing_bytes == 64 * MIB
    assert found.room_bytes == 800 * MIB


def test_pieces_between_the_tensors_of_the_call_are_no_room_for_it():
    """They will be there again: 100 MiB free in pieces of less than the 80 it asked for."""
    held = memory(free=40, allocated=800, reserved=860)
    clean = memory(free=500, allocated=500, reserved=500)
    assert shortage_of(failed(80, held, held), [GPU], clean).missing_bytes == 40 * MIB


def test_garbage_that_was_in_the_way_is_not_missing():
    at_failure = memory(free=40, allocated=800, reserved=860)
    held = memory(free=40, allocated=740, reserved=860)
    clean = memory(free=500, allocated=500, reserved=500)
    found = shortage_of(failed(80, at_failure, held), [GPU], clean)
    assert found.missing_bytes == -20 * MIB  # 40 and the 60 of garbage


def test_an_error_without_an_amount_leaves_open_what_is_missing():
    held = memory(free=40, allocated=800, reserved=900)
    error = Failure.of(RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), held, held)
    found = shortage_of(error, [GPU], held)
    assert (found.missing_bytes, found.need_bytes) == (None, None)
    assert found.device == GPU


def test_ram_that_ran_out_is_on_no_device():
    held = memory(free=40, allocated=800, reserved=900)
    found = shortage_of(Failure.of(MemoryError(), held, held), [GPU], held)
    assert (found.where, found.device, found.missing_bytes) == ("RAM", None, None)


def two(first, second):
    return Snapshot((first.devices[0], second.devices[0]), 0, 0)


@pytest.mark.parametrize(("text", "used", "name"), [
    ("CUDA out of memory. Tried to allocate 64.00 MiB. GPU 1 has a total capacity", ["cuda:0"],
     "cuda:1"),
    ("Allocation on device 0 would exceed allowed memory. (out of memory)", ["cuda:1"], "cuda:0"),
    ("VRAM grow failed: 134217728 bytes", ["cuda:1"], "cuda:1"),
    ("VRAM grow failed: 134217728 bytes", ["cuda:0", "cuda:1"], "cuda:1"),
    ("VRAM grow failed: 134217728 bytes", [], "cuda:0"),
    ("VRAM grow failed: 134217728 bytes", ["cuda"], "cuda:0"),
])
def test_the_full_device_is_the_one_that_is_named_else_the_fullest_in_use(text, used, name):
    held = two(memory(500, 100, 100), memory(10, 900, 900, name="cuda:1"))
    failure = Failure.of(RuntimeError(text), held, held)
    assert full_device(failure, [torch.device(device) for device in used]).device == name


def test_no_call_is_repeated_for_a_step_that_cannot_help(monkeypatch):
    """As under dynamic VRAM, where every model keeps some kilobytes of small weights loaded."""
    looks = iter([memory(10, 900, 900), memory(10, 900, 900), memory(500, 400, 400),
                  memory(500, 400, 400)])
    monkeypatch.setattr(oom_ladder, "snapshot", lambda: next(looks, memory(500, 400, 400)))
    calls, steps = [], [Step("unload", 75_000), Step("offload", 75_000), Step("tile", 400 * MIB)]

    def call():
        calls.append([step.name for step in steps if step.spares(None) == 0])
        if len(calls) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 128.00 MiB.")
        return "done"

    made = Ladder(steps=steps, max_attempts=8, tidy=lambda: None, used=[GPU],
                  explain=lambda recovery, now: "gave up")
    assert guarded(call, lambda: made) == "done"
    assert calls == [[], ["tile"]]


def test_the_last_words_say_which_steps_were_not_taken_and_why():
    class Idle(Step):
        def why_not(self, shortage):
            return "the batch is 1"

    def call():
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 128.00 MiB.")

    made = Ladder(steps=[Step("unload", None), Idle("splitting", 0)], max_attempts=8,
                  tidy=lambda: None, explain=lambda recovery, now: "; ".join(recovery.untried))
    with pytest.raises(OomGuardError, match=r"splitting \(the batch is 1\)"):
        guarded(call, lambda: made)
