"""What is noted of a prompt while it runs."""

import pytest
from support.rescue_bench import Bench

from headroom.base.said import said
from headroom.measure import journal


@pytest.mark.parametrize(("error", "expected"), [
    (ValueError(said("{name} weights", name="a")), ["a weights"]), (ValueError("of others"), []),
    (RuntimeError(said("it")), []),
])
def test_a_refusal_of_ours_is_noted_once_though_comfyui_logs_it_twice(error, expected):
    bench, noted = Bench(), []
    journal.listen(noted.append)
    bench.begin()
    for _ in range(2):
        bench.rescue.error_is_handled(error)
    assert [entry.text for entry in noted] == expected
