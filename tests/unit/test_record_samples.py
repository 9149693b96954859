"""Memory over time stays small and never loses a peak."""

import random

from headroom.record.nodes import Reading
from headroom.record.run import Samples


def test_a_long_run_stays_within_the_limit_and_keeps_its_peaks():
    draw = random.Random(7)
    samples = Samples(max_points=100)
    readings = [
        Reading(index * 0.01, draw.randrange(10**9), draw.randrange(10**9))
        for index in range(5000)
    ]
    for reading in readings:
        samples.add(reading)
    assert 40 <= len(samples.points) <= 100
    assert max(p.vram_bytes for p in samples.points) == max(r.vram_bytes for r in readings)
    assert max(p.rss_bytes for p in samples.points) == max(r.rss_bytes for r in readings)


def test_points_are_in_the_order_of_time():
    samples = Samples(max_points=50)
    for index in range(1000):
        samples.add(Reading(index * 0.003, None, index))
    times = [point.at for point in samples.points]
    assert times == sorted(times) and times[0] == 0


def test_every_reading_of_a_short_run_is_kept():
    samples = Samples()
    for index in range(20):
        samples.add(Reading(index * 0.01, index, index))
    assert [point.vram_bytes for point in samples.points] == list(range(20))


def test_a_peak_between_readings_is_shown():
    samples = Samples()
    samples.add(Reading(0.0, 5, 0))
    samples.add(Reading(0.0001, 5, 0, peak_bytes=9))
    assert samples.points[0].largest_bytes == 9


def test_vram_that_nobody_can_tell_stays_unknown():
    samples = Samples()
    samples.add(Reading(0.0, None, 1))
    samples.add(Reading(0.0001, None, 2))
    assert samples.points == [Reading(0.0, None, 2)]
