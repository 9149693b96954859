"""Which weights a cast may touch, and which models it must leave alone."""

from types import SimpleNamespace

import pytest
import torch

from headroom.cast.rules import (
    CastRules,
    is_layer,
    parse_keep,
    quantised_reason,
    unmatched,
    wanted_dtypes,
)

BF16 = torch.bfloat16


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(5, 4)
        self.position_embedding = torch.nn.Embedding(6, 4)
        self.pos_embed = torch.nn.Parameter(torch.zeros(1, 6, 4))
        self.time_pos_embed = torch.nn.Sequential(torch.nn.Linear(4, 4))
        self.norm = torch.nn.LayerNorm(4)
        self.out = torch.nn.Linear(4, 4)
        self.bn = torch.nn.BatchNorm1d(4)
        self.scale = torch.nn.Parameter(torch.tensor(2.0))
        self.ids = torch.nn.Parameter(torch.arange(3), requires_grad=False)
        self.register_buffer("sigmas", torch.ones(3))
        self.register_buffer("position_ids", torch.arange(3))


def targets(module, dtype=BF16, keep=""):
    rules = CastRules(dtype, parse_keep(keep))
    return {item.name: item.target for item in wanted_dtypes(module, rules)}


def reasons(module, keep=""):
    wanted = wanted_dtypes(module, CastRules(BF16, parse_keep(keep)))
    return {item.name: item.kept for item in wanted if item.kept}


def test_weights_are_cast_and_what_is_no_weight_keeps_its_dtype():
    wanted = targets(Net())
    assert wanted["out.weight"] == wanted["embed.weight"] == wanted["norm.bias"] == BF16
    assert wanted["scale"] == torch.float32 and wanted["ids"] == torch.int64
    assert "sigmas" not in wanted and "position_ids" not in wanted


def test_learned_position_tables_keep_their_dtype_but_layers_named_alike_do_not():
    wanted = targets(Net())
    assert wanted["position_embedding.weight"] == wanted["pos_embed"] == torch.float32
    assert wanted["time_pos_embed.0.weight"] == BF16


def test_a_layer_with_running_statistics_stays_whole():
    assert reasons(Net())["bn.weight"] == reasons(Net())["bn.bias"] == "running statistics"


def test_patterns_keep_whole_layers_because_a_layer_computes_in_one_dtype():
    wanted = targets(Net(), keep="norm, out.bias")
    assert wanted["norm.weight"] == wanted["out.weight"] == wanted["out.bias"] == torch.float32
    assert wanted["embed.weight"] == BF16


@pytest.mark.parametrize(("pattern", "name"), [
    ("out.w", "out.weight"), ("o*t.weight", "out.weight"), ("?ut.", "out.bias"),
])
def test_patterns_are_parts_of_names_with_wildcards(pattern, name):
    assert reasons(Net(), pattern)[name] == "keep_float32"


def test_patterns_that_match_no_name_are_reported():
    rules = CastRules(BF16, parse_keep(" norm ,, nothing , time*x"))
    assert rules.keep == ("norm", "nothing", "time*x")
    assert unmatched(rules, wanted_dtypes(Net(), rules)) == ["nothing", "time*x"]


def test_no_layer_is_kept_narrow_when_a_cast_widens():
    half = Net().to(BF16)
    assert targets(half, torch.float32, "norm")["norm.weight"] == torch.float32
    assert targets(half, torch.float32)["pos_embed"] == torch.float32


def test_a_tied_weight_is_planned_once_and_kept_if_any_of_its_names_is():
    net = Net()
    net.head = torch.nn.Linear(4, 5, bias=False)
    net.head.weight = net.embed.weight
    names = [item.name for item in wanted_dtypes(net, CastRules(BF16))]
    assert "embed.weight" in names and "head.weight" not in names
    kept = reasons(net, "head")
    assert kept == {**reasons(net), "head.weight": "keep_float32"}


def test_layers_are_torchs_own_and_leaves_with_weights():
    attention = torch.nn.MultiheadAttention(4, 1)
    assert is_layer(attention) and is_layer(torch.nn.Linear(2, 2))
    assert not is_layer(torch.nn.Sequential(torch.nn.Linear(2, 2))) and not is_layer(Net())
    assert not is_layer(torch.nn.SiLU())


class OddTensor(torch.Tensor):
    """As GGUF's and bitsandbytes' tensors: a class of its own behind an ordinary dtype."""


def with_weight(parameter):
    net = torch.nn.Linear(2, 2)
    net.weight = parameter
    return net


def odd_parameter():
    return torch.nn.Parameter(torch.ones(2, 2).as_subclass(OddTensor), requires_grad=False)


def low_bits(dtype):
    return torch.nn.Parameter(torch.zeros(2, 2, dtype=dtype), requires_grad=False)


@pytest.mark.parametrize(("module", "shown"), [
    (with_weight(odd_parameter()), "OddTensor weights"),
    (with_weight(low_bits(torch.float8_e4m3fn)), "float8_e4m3fn weights"),
    (with_weight(low_bits(torch.float8_e5m2)), "float8_e5m2 weights"),
    (with_weight(low_bits(torch.int8)), "int8 weights"),
    (with_weight(low_bits(torch.uint8)), "uint8 weights"),
])
def test_quantised_weights_are_recognised_by_class_and_storage(module, shown):
    assert quantised_reason(torch.nn.Sequential(module)) == shown


def test_an_odd_parameter_class_is_quantised_whatever_dtype_it_reports():
    class Params4bit(torch.nn.Parameter):
        pass

    packed = Params4bit(torch.ones(2, 2), requires_grad=False)
    assert packed.dtype == torch.float32
    assert quantised_reason(with_weight(packed)) == "Params4bit weights"


@pytest.mark.parametrize("mark", ["quant_format", "layout_type", "quant_state"])
def test_layers_marked_by_their_quantiser_are_left_alone(mark):
    net = torch.nn.Linear(2, 2)
    setattr(net, mark, None)
    assert quantised_reason(net) == ""
    setattr(net, mark, SimpleNamespace())
    assert quantised_reason(net) == "Linear layers with quantised weights"


def test_layers_with_a_scale_beside_the_weight_are_left_alone():
    net = torch.nn.Linear(2, 2)
    net.scale_weight = torch.nn.Parameter(torch.tensor(1.0))
    assert quantised_reason(net) == "weights scaled by `scale_weight`"


def test_layers_of_quantising_packages_are_left_alone():
    layer = type("Linear4bit", (torch.nn.Linear,), {"__module__": "bitsandbytes.nn.modules"})
    assert quantised_reason(layer(2, 2)) == "Linear4bit layers (bitsandbytes)"


def test_ordinary_models_with_integer_buffers_are_not_quantised():
    assert quantised_reason(Net()) == ""
