"""The final error: what was tried, what was free and asked for, and the two best changes."""

from dataclasses import replace

import pytest
import torch
from support.hosts import Host, Patcher
from support.systems import Nvml

from headroom.base.ceiling import Ceiling
from headroom.guard import explain as oom_text
from headroom.guard.attempt import Failure
from headroom.guard.call import Call, GuardOptions
from headroom.guard.explain import explain
from headroom.guard.lack import Lack
from headroom.measure import nvml
from headroom.measure.journal import OomAttempt
from headroom.measure.other_processes import OtherProcess
from headroom.measure.snapshot import DeviceMemory, Snapshot

GIB = 1 << 30
GPU = DeviceMemory("cuda:0", "a card", 8 * GIB, GIB // 2, 7 * GIB, 7 * GIB, None)
NOW = Snapshot((GPU,), 2 * GIB, 16 * GIB)


def failure(text="CUDA out of memory. Tried to allocate 3.00 GiB."):
    return Failure.of(torch.OutOfMemoryError(text))


def step(action, freed_mib):
    return OomAttempt(None, None, 1, action, freed_mib, "", False, 0.0)


def call_of(batch=1, size="64x64 in latent pixels", patchers=()):
    call = Call()
    call.words, call.batch, call.size, call.patchers = "a step", batch, size, patchers
    return call


UNKNOWN = Lack("device")


def text_of(now=NOW, batch=1, failed=None, lack=UNKNOWN, steps=(), **options):
    return explain(
        call_of(batch), GuardOptions(**options), [failed or failure()], steps, now, lack)


def text_for(call):
    return explain(call, GuardOptions(), [failure()], [], NOW, UNKNOWN)


def test_the_error_says_what_was_asked_for_what_was_free_and_what_was_tried():
    split = step("split", 0.0)
    text = text_of(steps=[step("returned cached and unused memory", 12.5), split, split])
    assert "after 3 attempts the call still asked for 3,072.0 MiB" in text
    assert "512.0 MiB of 8,192.0 MiB were free on cuda:0" in text
    tried = "returned cached and unused memory: 12.5 MiB freed; split (2 times): nothing freed"
    assert tried in text


def test_where_the_call_itself_holds_the_rest_the_error_says_so():
    lack = Lack("device", None, 3 * GIB, GIB, 8 * GIB, 7 * GIB, held_bytes=5 * GIB)
    held = ("Without its weights the call held 5,120.0 MiB at that time, the free pieces between "
            "its tensors included. It needs 8,192.0 MiB or more, "
            "and 7,168.0 MiB can be free for it.")
    assert held in text_of(lack=lack)
    estimated = text_of(lack=lack.at_least(12 * GIB))  # it is no measurement
    assert "the call held 5,120.0 MiB" in estimated and "needs 12,288.0 MiB or more" in estimated
    assert "Without its weights" not in text_of(lack=replace(lack, missing_bytes=0))
    assert "Without its weights" not in text_of()


def test_a_video_gets_the_advice_to_take_fewer_frames():
    call = call_of()
    call.is_video = True
    text = text_for(call)
    assert "Most likely to help: fewer frames, or a smaller width" in text


@pytest.mark.parametrize(("batch", "options", "first", "second"), [
    (4, {}, "a smaller batch (now 4)", "a smaller width and height (now 64x64 in latent pixels)"),
    (1, {}, "a smaller width and height", "a smaller or more strongly quantised model file"),
    (4, {"split_batch": False}, "turning on split_batch", "a smaller batch"),
    (1, {"split_batch": False}, "a smaller width and height", "a smaller or more strongly"),
    (1, {"offload_weights": False, "free_other_models": False}, "turning on offload_weights",
     "turning on free_other_models"),
])
def test_the_two_most_helpful_changes_are_named_in_order(batch, options, first, second):
    advice = text_of(batch=batch, **options).split("Most likely to help: ")[1]
    left, right = advice.split(", or ")
    assert left.startswith(first)
    assert right.startswith(second)


def test_another_program_on_the_gpu_that_is_full_is_named_when_it_holds_much(monkeypatch):
    found = [OtherProcess("python (4242)", 5_000 << 20)]
    monkeypatch.setattr(oom_text, "other_processes", lambda device: found)
    assert "closing python (4242), which holds 5,000.0 MiB of the same GPU" in text_of()
    assert "closing" not in text_of(lack=Lack("RAM"))
    found[0] = OtherProcess("python (4242)", 20 << 20)
    assert "closing" not in text_of()


def test_a_driver_that_lists_no_processes_does_not_spoil_the_error(monkeypatch):
    class Refuses(Nvml):
        def nvmlDeviceGetComputeRunningProcesses(self, card):  # noqa: N802
            raise self.NVMLError("not supported")

    monkeypatch.setattr(nvml, "_nvml", Refuses)
    assert "Most likely to help: a smaller width and height" in text_of()


def test_a_float32_model_on_a_gpu_that_computes_in_bf16_gets_the_advice_to_cast_it(monkeypatch):
    patcher = Patcher(torch.nn.Linear(1024, 1024), "cuda:0")
    monkeypatch.setattr(oom_text, "current_host", Host)
    call = call_of(size="", patchers=[patcher])
    for can in (True, False):
        monkeypatch.setattr(oom_text, "computes_in_bf16", lambda can=can: can)
        assert ("the node Cast bf16 on this model" in text_for(call)) is can
    monkeypatch.setattr(oom_text, "computes_in_bf16", lambda: True)
    patcher.model.to(torch.bfloat16)
    assert "Cast bf16" not in text_for(call)


def test_without_ram_the_error_speaks_of_ram():
    text = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 100 bytes."
    failed = failure(text)
    assert "of RAM were available" in text_of(failed=failed)


def test_the_free_figure_never_contradicts_the_asked_figure():
    asked = "CUDA out of memory. Tried to allocate 80.00 MiB."
    text = text_of(failed=failure(asked))
    assert "512.0 MiB of 8,192.0 MiB were free on cuda:0, but not in one piece" in text


def test_the_place_where_memory_first_ran_out_is_named():
    try:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 80.00 MiB.")
    except RuntimeError as error:
        found = error
    here = test_the_place_where_memory_first_ran_out_is_named.__name__
    text = text_of(failed=Failure.of(found))
    assert f"It first ran out of memory in {here}, line " in text


def test_a_call_without_a_picture_gets_no_advice_about_width_and_height():
    """Encoding a text, or computing sound."""
    text = text_for(call_of(size=""))
    assert "Most likely to help: a smaller or more strongly quantised model file." in text


def test_what_was_free_is_told_of_the_card_that_was_full():
    other = replace(GPU, device="cuda:1", driver_free_bytes=GIB // 4)
    now = replace(NOW, devices=(GPU, other))
    full = Lack("device", torch.device("cuda:1"))
    assert "256.0 MiB of 8,192.0 MiB were free on cuda:1" in text_of(now, lack=full)
    assert "512.0 MiB of 8,192.0 MiB were free on cuda:0" in text_of(now)


def test_with_a_limit_what_was_free_is_told_of_the_limit():
    limit = Ceiling(8 * GIB, 8 * GIB, 8 * GIB)
    card = replace(GPU, total_bytes=24 * GIB, driver_free_bytes=16 * GIB, ceiling=limit)
    text = text_of(replace(NOW, devices=(card,)))
    assert "1,024.0 MiB of the VRAM limit of 8,192.0 MiB were free on cuda:0" in text
