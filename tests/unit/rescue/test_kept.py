"""What is noted of a prompt while it runs."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from support.rescue_bench import Bench

from headroom.base.said import said
from headroom.measure import journal
from headroom.rescue import kept, rescue


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


def test_an_error_that_another_thread_logs_changes_no_cast_of_the_node_that_computes(monkeypatch):
    forgotten = []
    streaming = SimpleNamespace(forget_half_casts=lambda: forgotten.append(1))
    host = SimpleNamespace(streaming=streaming, is_interrupt=lambda error: False)
    for module in (kept, rescue):
        monkeypatch.setattr(module, "guard_host", lambda: host)
    bench = Bench()
    bench.begin()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(bench.rescue.error_is_handled, MemoryError("of a pack")).result()
    assert forgotten == []
    bench.rescue.error_is_handled(MemoryError("of the node"))
    assert forgotten == [1]
