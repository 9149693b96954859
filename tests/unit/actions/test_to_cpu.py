"""Move to CPU: every tensor copied into memory of its own, everything else as it was."""

import dataclasses
import gc
import weakref
from collections import OrderedDict, defaultdict, deque, namedtuple

import numpy as np
import pytest
import torch

from headroom.actions.to_cpu import move_to_cpu, to_cpu
from headroom.base.numpy_backed import numpy_backed

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    torch.complex64, torch.uint16, torch.uint32,
]
Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Embeds:
    cond: torch.Tensor
    name: str


@dataclasses.dataclass(frozen=True)
class FrozenEmbeds:
    cond: torch.Tensor
    parts: list


class Unknown:
    def __init__(self):
        self.weight = torch.ones(3)


class Nested:
    """As ComfyUI's NestedTensor: video and audio latents in one value."""

    def __init__(self, tensors):
        self.tensors = list(tensors)
        self.is_nested = True


def is_numpy_backed(tensor):
    """torch cannot resize memory that belongs to NumPy."""
    return not tensor.untyped_storage().resizable()


def own_bytes(tensor):
    return tensor.numel() * tensor.element_size()


def assert_moved(moved, original):
    assert moved.device.type == "cpu" and moved.is_contiguous() and not moved.requires_grad
    assert moved.grad_fn is None and is_numpy_backed(moved)
    assert moved.untyped_storage().nbytes() == own_bytes(moved)
    assert moved.data_ptr() != original.data_ptr()
    assert moved.dtype == original.dtype and moved.shape == original.shape
    same_bits = moved.reshape(-1).view(torch.uint8)
    assert torch.equal(same_bits, original.detach().contiguous().reshape(-1).view(torch.uint8))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 4)], ids=str)
def test_every_dtype_and_shape_is_copied_bit_by_bit_into_a_numpy_array(dtype, shape):
    count = int(np.prod(shape, dtype=int)) * torch.empty(0, dtype=dtype).element_size()
    noise = torch.randint(0, 2 if dtype == torch.bool else 256, (count,), dtype=torch.uint8)
    original = noise.view(dtype).reshape(shape)
    moved = numpy_backed(original)
    assert moved.dtype == dtype and moved.shape == shape and is_numpy_backed(moved)
    assert torch.equal(moved.reshape(-1).view(torch.uint8), noise)


def test_a_view_on_a_large_buffer_does_not_keep_the_buffer():
    buffer = torch.arange(1000.0)
    view = buffer[10:30].reshape(4, 5).T
    assert_moved(to_cpu(view).value, view)


def test_a_result_of_training_code_comes_out_detached_and_usable_in_training_code():
    with torch.inference_mode():
        inferred = torch.ones(3)
    for original in (torch.ones(3, requires_grad=True) * 2, inferred):
        moved = to_cpu(original).value
        assert_moved(moved, original)
        weight = torch.ones(3, requires_grad=True)
        (weight * moved).sum().backward()


def test_a_parameter_comes_out_as_a_plain_tensor():
    parameter = torch.nn.Parameter(torch.ones(2))
    assert type(to_cpu(parameter).value) is torch.Tensor


def test_conjugated_and_negated_views_are_resolved():
    original = torch.tensor([1 + 2j, 3 - 1j]).conj()
    moved = to_cpu(original).value
    assert torch.equal(moved, original.resolve_conj()) and not moved.is_conj()


def conditioning():
    tensors = {"pooled_output": torch.ones(1, 4), "deep": [{"mask": (torch.zeros(2), "m")}]}
    return [[torch.ones(1, 77, 4), {**tensors, "strength": 0.5, "none": None}]]


def test_tensors_at_any_depth_are_replaced_and_the_input_is_not_changed():
    original = conditioning()
    inner, tensors = original[0][1], [original[0][0], original[0][1]["deep"][0]["mask"][0]]
    done = to_cpu(original)
    assert done.tensors == 3 and done.left == []
    assert original[0][1] is inner and original[0][0] is tensors[0]
    assert done.value[0][1]["strength"] == 0.5 and done.value[0][1]["none"] is None
    assert type(done.value[0][1]["deep"][0]["mask"]) is tuple
    assert_moved(done.value[0][0], tensors[0])
    assert_moved(done.value[0][1]["deep"][0]["mask"][0], tensors[1])


@pytest.mark.parametrize("make", [
    lambda t: Pair(t, 1), lambda t: OrderedDict(b=1, a=t), lambda t: Embeds(t, "x"),
    lambda t: FrozenEmbeds(t, [t, "x"]), lambda t: defaultdict(list, a=t), lambda t: Nested([t, t]),
], ids=["namedtuple", "OrderedDict", "dataclass", "frozen dataclass", "defaultdict",
        "nested tensor"])
def test_containers_keep_their_class_and_their_other_members(make):
    tensor = torch.arange(6.0)[1:4]
    original = make(tensor)
    done = to_cpu(original)
    assert type(done.value) is type(original) and done.left == [] and done.tensors == 1
    found = found_tensors(done.value)
    assert found and all(is_numpy_backed(item) for item in found)
    assert all(item is tensor for item in found_tensors(original))
    if isinstance(original, (OrderedDict, defaultdict)):
        assert list(done.value) == list(original)


def found_tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return found_tensors(list(value.values()))
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in found_tensors(item)]
    return found_tensors(list(vars(value).values())) if hasattr(value, "__dict__") else []


def test_a_model_output_of_transformers_keeps_its_two_faces():
    outputs = pytest.importorskip("transformers.modeling_outputs")
    original = outputs.BaseModelOutput(last_hidden_state=torch.ones(6)[1:3])
    value = to_cpu(original).value
    assert type(value) is type(original)
    assert value["last_hidden_state"] is value.last_hidden_state is value[0]
    assert_moved(value.last_hidden_state, original.last_hidden_state)


def test_unknown_objects_are_passed_through_and_named():
    tensor = torch.ones(2)
    unknown = {"control": Unknown(), "deque": deque([tensor]), "set": {tensor},
               "array": np.array([tensor, None], dtype=object)}
    done = to_cpu([{**unknown, "array of numbers": np.ones(2), "size": torch.Size([1])}])
    assert all(done.value[0][name] is part for name, part in unknown.items())
    assert done.left == [
        f"{type(part).__name__}, passed on unchanged" for part in unknown.values()
    ]


def test_tensors_that_numpy_cannot_hold_are_named():
    original = [torch.ones(2, 2).to_sparse(), torch.ones(2, device="meta")]
    done = to_cpu(original)
    assert done.value[0].is_sparse and done.value[1] is original[1]
    assert len(done.left) == 2 and "sparse" in done.left[0] and "meta" in done.left[1]


def test_no_object_of_torch_keeps_the_source_alive():
    source = torch.ones(100)
    watcher = weakref.ref(source)
    value = to_cpu([source]).value
    del source
    gc.collect()
    assert watcher() is None and float(value[0].sum()) == 100


def test_the_report_admits_that_nothing_moved():
    _, report = move_to_cpu(conditioning())
    assert report.headline.startswith("0.0 MiB moved: everything ")
    assert "(tensors: 3, " in report.headline
    _, report = move_to_cpu("no tensor")
    assert "no tensor was found in the value" in report.headline


def test_the_report_names_each_class_once():
    _, report = move_to_cpu([Unknown() for _ in range(13)])
    assert report.steps == ("left as it is: Unknown, passed on unchanged",)


def test_nobody_is_told_that_an_object_which_was_not_searched_has_no_tensor():
    _, report = move_to_cpu({torch.ones(2)})  # as a MESH or a VIDEO of ComfyUI
    assert report.headline == "0.0 MiB moved: no tensor was found in the value"
    assert report.steps == ("left as it is: set, passed on unchanged",)
