"""The samples of memory over time stay few, and no peak among them is lost."""

from hypothesis import given
from hypothesis import strategies as st
from support.properties import steady

from headroom.record.run import Sample, Samples

amounts = st.integers(0, 10**9)


@steady
@given(st.lists(st.tuples(amounts, amounts, amounts), min_size=1, max_size=300))
def test_a_long_run_stays_within_the_limit_and_keeps_its_peaks(read):
    samples = Samples(max_points=20, step=1)
    taken = [Sample(at, rss, tuple(vram)) for at, (rss, *vram) in enumerate(read)]
    for sample in taken:
        samples.add(sample)
    assert min(len(taken), 10) <= len(samples.points) <= 20
    for device in range(2):
        kept = max(point.vram_bytes[device] for point in samples.points)
        assert kept == max(sample.vram_bytes[device] for sample in taken)
    assert max(p.rss_bytes for p in samples.points) == max(one.rss_bytes for one in taken)


def test_points_are_in_the_order_of_time():
    samples = Samples(max_points=50)
    for index in range(1000):
        samples.add(Sample(index * 0.003, index))
    times = [point.at for point in samples.points]
    assert times == sorted(times) and times[0] == 0


def test_every_reading_of_a_short_run_is_kept():
    samples = Samples()
    for index in range(20):
        samples.add(Sample(index * 0.01, index, (index,)))
    assert [point.vram_bytes for point in samples.points] == [(index,) for index in range(20)]


def test_figures_that_cannot_be_read_stay_unknown():
    samples = Samples()
    samples.add(Sample(0.0, None, (None, 4)))
    samples.add(Sample(0.0001, 2, (None, None)))
    assert samples.points == [Sample(0.0, 2, (None, 4))]
