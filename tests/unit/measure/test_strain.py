"""What strains the machine: it is read four times a second at most; seconds of disk reads."""

from headroom.measure.strain import Strains

MIB = 1 << 20


def test_strain_is_read_four_times_a_second_and_seconds_count_in_which_bytes_came_from_disk(
    monkeypatch
):
    at, total = [100.0], [0]
    strains = Strains(lambda: 5, lambda: at[0])
    monkeypatch.setattr(strains, "_read", lambda: total[0] * MIB)

    def after(seconds, read_mib):
        at[0] += seconds
        total[0] += read_mib
        return strains.now()

    first = after(0, 5)
    assert (first.read_seconds, first.spilled_bytes) == (0.0, 5)
    assert first.swapped_bytes is None or first.swapped_bytes >= 0
    assert after(0.1, 50) is None  # a moment ago
    assert round(after(0.2, 50).read_seconds, 3) == 0.3
    assert round(after(0.3, 0).read_seconds, 3) == 0.3
    assert round(after(60, 900).read_seconds, 3) == 0.3  # between two prompts nobody looked
    found = after(0.5, 10)
    assert (round(found.read_seconds, 3), found.read_bytes) == (0.8, 1015 * MIB)
