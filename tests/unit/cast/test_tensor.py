"""One tensor cast: the right values, and overflow before it does harm."""

import pytest
import torch

from headroom.cast.tensor import CastOverflow, cast_tensor, check_tensor, is_exact

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def noise(*shape, scale=1.0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(5)) * scale


@pytest.mark.parametrize("target", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (2, 3, 4, 5), (0, 4)])
def test_the_values_are_those_of_torch_and_the_source_stays(shape, target):
    source = noise(*shape)
    before = source.clone()
    result = cast_tensor("w", source, target)
    assert torch.equal(result, before.to(target)) and torch.equal(source, before)
    assert result.data_ptr() != source.data_ptr() or not source.numel()


def test_strides_stay_for_weights_in_channels_last_order():
    source = noise(4, 3, 5, 6).to(memory_format=torch.channels_last)
    result = cast_tensor("w", source, torch.bfloat16)
    assert result.stride() == source.stride()
    assert torch.equal(result, source.to(torch.bfloat16))


def test_views_with_holes_and_expanded_views_are_cast_too():
    for source in (noise(6, 8)[:, ::2], noise(1, 8).expand(3, 8)):
        result = cast_tensor("w", source, torch.bfloat16)
        assert torch.equal(result, source.to(torch.bfloat16))


@pytest.mark.parametrize("place", [0, 7, 99])
def test_a_value_that_does_not_fit_is_refused_with_the_tensors_name(place):
    source = torch.ones(100)
    source[place] = -70_000.0
    message = r"^blocks\.3\.weight contains 70000, but float16 ends at 65504$"
    with pytest.raises(CastOverflow, match=message):
        cast_tensor("blocks.3.weight", source, torch.float16)
    with pytest.raises(CastOverflow, match=message):
        check_tensor("blocks.3.weight", source, torch.float16)


def test_a_float64_beyond_float32_does_not_fit_into_bfloat16_either():
    with pytest.raises(CastOverflow, match="bfloat16 ends at"):
        cast_tensor("w", torch.tensor([1e39], dtype=torch.float64), torch.bfloat16)


def test_the_last_value_that_rounds_into_float16_is_accepted():
    result = cast_tensor("w", torch.tensor([65_504.0, 65_519.0]), torch.float16)
    assert result.tolist() == [65_504.0, 65_504.0]


def test_infinities_and_nans_that_were_there_before_pass():
    source = torch.tensor([float("inf"), float("-inf"), float("nan"), 1.0])
    result = cast_tensor("w", source, torch.float16)
    assert torch.equal(result.isnan(), source.isnan())
    assert result[:2].tolist() == [float("inf"), float("-inf")]


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", FLOATS)
def test_whether_a_cast_is_exact_is_right_for_every_pair_of_dtypes(source, target):
    order = {torch.float64: 3, torch.float32: 2, torch.float16: 1, torch.bfloat16: 1}
    assert is_exact(source, target) == (source == target or order[target] > order[source])


def test_widening_changes_no_value():
    source = noise(9).to(torch.bfloat16)
    result = cast_tensor("w", source, torch.float32)
    assert result.dtype == torch.float32 and torch.equal(result, source.float())


def test_a_tensor_without_memory_is_cast_without_memory():
    result = cast_tensor("w", torch.empty(5, device="meta"), torch.bfloat16)
    assert (result.device.type, result.dtype) == ("meta", torch.bfloat16)


def test_it_works_under_inference_mode_on_inference_tensors():
    with torch.inference_mode():
        source = noise(3, 4)
        result = cast_tensor("w", source, torch.bfloat16)
    assert torch.equal(result.float(), source.to(torch.bfloat16).float())


def test_the_end_of_the_range_of_float32_stays_finite_in_bfloat16():
    values = torch.tensor([3.4028e38, -3.4028e38, float("inf"), float("nan"), 1.0])
    check_tensor("unset", values, torch.bfloat16)
    cast = cast_tensor("unset", values, torch.bfloat16)
    limit = torch.finfo(torch.bfloat16).max
    assert cast[:3].tolist() == [limit, -limit, float("inf")]
    assert cast[3].isnan() and cast[4] == 1
