"""Casting modules, carriers and pipelines without ComfyUI: a private copy, the source untouched."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.blocks import Block, Quantised, same_state, state

import headroom
from headroom.base.said import said_json


def test_a_module_gets_a_private_copy_and_stays_bit_identical(module, x):
    before, answer = state(module), module(x)
    done = headroom.cast(module)
    copied = done.value
    assert copied is not module and isinstance(copied, Block)
    assert type(copied).__name__ == "Block" and type(module) is Block
    assert {p.dtype for p in copied.parameters()} == {torch.bfloat16}
    assert copied.table.dtype == torch.float32 and copied.dtype == torch.bfloat16
    for parameter in copied.parameters():
        parameter.zero_()
    copied.table.zero_()
    assert same_state(module, before) and torch.equal(module(x), answer)
    assert module.dtype == torch.float32


@pytest.mark.parametrize("feed", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("keep", ["", "norm", "attention.out_proj", "linear, gain"])
def test_whatever_is_kept_the_copy_takes_inputs_of_any_dtype(module, x, feed, keep):
    copied = headroom.cast(module, keep_float32=keep).value
    error = (copied(x.to(feed)).float() - module(x)).norm() / module(x).norm()
    assert error < 0.02


def test_where_everything_is_kept_the_module_is_the_same_object(module):
    done = headroom.cast(module, keep_float32="*")
    assert done.value is module
    assert done.report.headline == "0 MiB saved: every weight is kept (keep_float32)"


def test_a_shell_whose_weights_its_pack_loads_later_is_refused(module):
    module.linear.to("meta")
    with pytest.raises(ValueError, match="its pack loads its weights when it uses it"):
        headroom.cast(module)


def test_kept_layers_compute_in_float32(module, x):
    seen = []
    copied = headroom.cast(module, keep_float32="norm").value
    copied.norm.register_forward_pre_hook(lambda _m, args: seen.append(args[0].dtype))
    copied.linear.register_forward_pre_hook(lambda _m, args: seen.append(args[0].dtype))
    copied(x.to(torch.bfloat16))
    assert seen == [torch.float32, torch.bfloat16]
    assert copied.norm.weight.dtype == torch.float32


def test_bytes_fall_to_half_and_the_report_counts_them_by_dtype(module):
    done = headroom.cast(module)
    weights = sum(p.numel() * 4 for p in module.parameters())
    assert done.saved_bytes == weights / 2
    assert "saved" in done.report.headline and "in bfloat16" in done.report.headline
    assert "MiB float32 -> " in done.report.text
    assert "until nothing uses the original any more, the copy costs" in done.report.text


def test_a_module_already_in_that_dtype_is_the_same_object(module):
    half = module.to(torch.bfloat16)
    done = headroom.cast(half)
    assert done.value is half and done.saved_bytes == 0
    assert done.report.headline == "0 MiB saved: already bfloat16"


def test_a_cast_of_a_cast_is_the_same_object_kept_weights_included(module):
    first = headroom.cast(module, keep_float32="norm")
    again = headroom.cast(first.value, keep_float32="norm")
    assert again.value is first.value
    assert again.report.headline == "0 MiB saved: already bfloat16, apart from what is kept"


def test_the_other_half_precision_saves_nothing_and_the_report_says_so(module):
    done = headroom.cast(module.to(torch.float16))
    assert done.saved_bytes == 0 and done.report.headline.startswith("0.0 MiB saved")
    assert "takes the same room" in done.report.text


def test_casting_back_to_float32_keeps_the_rounded_values_exactly(module, x):
    half = headroom.cast(module, keep_float32="norm").value
    back = headroom.cast(half, "float32")
    assert {p.dtype for p in back.value.parameters()} == {torch.float32}
    for name, parameter in back.value.named_parameters():
        assert torch.equal(parameter, half.get_parameter(name).float())
    assert "more needed" in back.report.headline
    assert back.value(x).dtype == torch.float32


def test_a_float16_overflow_is_refused_by_name_and_nothing_changes(module):
    with torch.no_grad():
        module.linear.weight[3, 5] = 1e5
    before = state(module)
    with pytest.raises(ValueError, match=r"float16: linear\.weight contains 100000, .*bfloat16"):
        headroom.cast(module, "float16")
    assert same_state(module, before)
    assert headroom.cast(module, "bfloat16").value is not module
    assert headroom.cast(module, "float16", "linear").value.linear.weight.dtype == torch.float32


def test_tied_weights_stay_tied(module):
    module.head = torch.nn.Linear(64, 64, bias=False)
    module.head.weight = module.linear.weight
    copied = headroom.cast(module).value
    assert copied.head.weight is copied.linear.weight


def test_separate_parameters_over_one_storage_stay_over_one_storage(module):
    module.head = torch.nn.Linear(64, 64, bias=False)
    module.head.weight = torch.nn.Parameter(module.linear.weight.data, requires_grad=False)
    copied = headroom.cast(module).value
    assert copied.head.weight.data_ptr() == copied.linear.weight.data_ptr()


def test_gradients_flags_and_modes_are_carried_over(module):
    module.linear.weight.requires_grad_(True)
    copied = headroom.cast(module.train()).value
    assert copied.training and copied.linear.weight.requires_grad
    assert not copied.linear.bias.requires_grad


def test_methods_bound_inside_the_module_are_bound_to_the_copy(module):
    module.again = module.forward
    copied = headroom.cast(module).value
    assert copied.again.__self__ is copied


def test_a_copy_can_be_copied_and_saved(module, x):
    copied = headroom.cast(module, keep_float32="norm").value
    assert torch.equal(copy.deepcopy(copied)(x), copied(x))


def test_a_module_that_python_cannot_copy_is_refused_in_words(module):
    module.stream = (line for line in ["a generator cannot be copied"])
    with pytest.raises(ValueError, match="cannot make a private copy of this Block .*generator"):
        headroom.cast(module)


def test_a_module_under_offload_hooks_is_refused(module):
    module._hf_hook = object()
    with pytest.raises(ValueError, match="without offload hooks"):
        headroom.cast(module)


def test_a_quantised_module_passes_through_untouched(module):
    packed = module.linear.weight.data.as_subclass(Quantised)
    module.linear.weight = torch.nn.Parameter(packed, requires_grad=False)
    done = headroom.cast(module)
    assert done.value is module
    assert done.report.headline.startswith("0 MiB saved: not cast: it is quantised (Quantised")


@pytest.mark.parametrize(("value", "came"), [
    (None, "nothing"), ("sd15", "a str"), (torch.zeros(3), "a Tensor"), ([1], "a list"),
])
def test_a_value_without_a_model_is_refused_in_words(value, came):
    with pytest.raises(ValueError, match=f"expects a model on the input `model`, but got {came}"):
        headroom.cast(value)


def test_an_unknown_dtype_is_refused(module):
    with pytest.raises(ValueError, match="'float16' or 'float32', but got 'int8'"):
        headroom.cast(module, "int8")


@pytest.mark.parametrize("model", [
    torch.nn.Linear(2, 2).bfloat16(), torch.nn.BatchNorm1d(2), torch.nn.Identity(),
    torch.nn.Sequential(torch.nn.Linear(2, 2).bfloat16(), torch.nn.BatchNorm1d(2)),
    torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)),
], ids=["already", "kept", "no weights", "already but for", "one kept"])
def test_every_reason_is_a_phrase_that_pages_can_say_in_their_language(model):
    report = headroom.cast(model, keep_float32="nothing").report
    why = said_json(report.headline)["values"].get("why", {})
    assert isinstance(why, dict) and report.headline.count(":") == 1


ROOT = Path(__file__).resolve().parents[3]
LAYERS, SIDE = 48, 1024
HEAP_SLACK = 24 * 2**20  # RSS counts free heap too; a whole second copy would be 192 MiB

CHILD = """
import gc, json, sys
sys.path.insert(0, sys.argv[1])
import torch
import headroom

def status(field):
    for line in open("/proc/self/status"):
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024

layers, side = int(sys.argv[2]), int(sys.argv[3])
make = lambda n: torch.nn.Sequential(*[torch.nn.Linear(side, side, bias=False) for _ in range(n)])
headroom.cast(make(4), "float16")  # what is loaded at the first use counts for nobody
module = make(layers)
gc.collect()
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
done = headroom.cast(module, "float16")
after, peak = status("VmRSS"), status("VmHWM")
print(json.dumps({"after": after - before, "peak": peak - before, "saved": done.saved_bytes}))
"""


def can_reset_the_peak():
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


@pytest.mark.skipif(not can_reset_the_peak(), reason="needs Linux's /proc to reset the peak of RSS")
def test_peak_ram_is_the_original_the_copy_and_at_most_one_tensor():
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(ROOT), str(LAYERS), str(SIDE)],
        capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    copy, one_tensor = LAYERS * SIDE * SIDE * 2, SIDE * SIDE * 4
    assert figures["saved"] == copy
    assert figures["peak"] <= copy + one_tensor + HEAP_SLACK
