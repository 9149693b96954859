"""Any error at any operation of torch in our functions passes and leaves nothing behind."""

import copy

import pytest
import torch
from support.models import Encoder
from torch.utils._python_dispatch import TorchDispatchMode

from headroom import cast, to_cpu
from headroom.encode.cache_key import EmbeddingLookup
from headroom.encode.disk_cache import EmbeddingCache
from headroom.encode.encode import encode_to_cpu

ERRORS = [
    RuntimeError("CUDA error: an illegal memory access was encountered"),
    MemoryError("no RAM is left"),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    ValueError("of somebody else"),
    KeyboardInterrupt(),
]


class FailAt(TorchDispatchMode):
    """Raises `error` at the `at`-th operation (0: never), and counts them."""

    def __init__(self, at, error):
        super().__init__()
        self.at, self.error, self.seen = at, error, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen += 1
        if self.seen == self.at:
            raise self.error
        return function(*args, **(kwargs or {}))


def swept(work, error, check):
    """Fail every operation of `work` in turn; `check` what is left after each."""
    with FailAt(0, error) as counted:
        work()
    assert counted.seen > 0
    for at in range(1, counted.seen + 1):
        with pytest.raises(type(error)) as raised, FailAt(at, error):
            work()
        assert raised.value is error, at
        check()
    return counted.seen


def bits(module):
    return [tensor.clone() for tensor in (*module.parameters(), *module.buffers())]


def equal(one, other):
    return len(one) == len(other) and all(map(torch.equal, one, other))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_inside_move_to_cpu_the_value_stays_as_it_was(error):
    value = {"samples": torch.arange(8.0).reshape(2, 4)[:, ::2], "more": [torch.ones(3), {}]}
    before = copy.deepcopy(value)

    def check():
        assert list(value) == list(before) and value["more"][1] == {}
        assert torch.equal(value["samples"], before["samples"])
        assert torch.equal(to_cpu(value).value["samples"], before["samples"])

    assert swept(lambda: to_cpu(value), error, check) >= 2


@pytest.mark.parametrize("error", ERRORS[:3], ids=lambda error: type(error).__name__)
def test_inside_cast_the_model_stays_as_it_was_and_can_be_cast_afterwards(error):
    torch.manual_seed(1)
    module = torch.nn.Sequential(
        torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)
    ).eval()
    before, flags = bits(module), [parameter.requires_grad for parameter in module.parameters()]
    hooks = [len(part._forward_pre_hooks) for part in module.modules()]
    x = torch.ones(3, 4)
    result = module(x)

    def check():
        assert equal(bits(module), before)
        assert [parameter.requires_grad for parameter in module.parameters()] == flags
        assert [len(part._forward_pre_hooks) for part in module.modules()] == hooks
        assert {tensor.dtype for tensor in module.parameters()} == {torch.float32}

    assert swept(lambda: cast(module, "bfloat16"), error, check) >= 6
    assert torch.equal(module(x), result)
    assert cast(module, "bfloat16").value[0].weight.dtype == torch.bfloat16


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_inside_encode_to_cpu_the_cache_holds_nothing_wrong(tmp_path, error):
    prompts = ["a", "bb", "ccc"]
    right = [float(item[0][0][0])
             for item in encode_to_cpu(Encoder(), prompts).conditionings]
    folders = iter(range(10_000))

    def work():
        nonlocal lookup
        lookup = EmbeddingLookup(EmbeddingCache(tmp_path / str(next(folders))), "encoder")
        encode_to_cpu(Encoder(), prompts, lookup=lookup)

    def check():
        again = EmbeddingLookup(lookup.cache, "encoder")
        again.has_all(prompts)
        for prompt, value in zip(prompts, right, strict=True):
            if prompt in again.found:
                assert float(again.found[prompt][0][0][0]) == value
        assert all(path.suffix == ".safetensors" for path in lookup.cache.folder.glob("*"))

    lookup = None
    assert swept(work, error, check) >= 9
