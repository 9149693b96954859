"""Amounts in advice."""

from headroom.advise.words import short_text


def test_an_amount_in_advice_is_rounded_as_the_panel_rounds_it():
    amounts = (2.25, 2.75, 10.5, 998.5, 1280, 1792, 100.5 * 1024, 0)  # toFixed rounds halves up
    assert [short_text(mib * 2**20) for mib in amounts] == [
        "2.3 MiB", "2.8 MiB", "11 MiB", "999 MiB", "1.3 GiB", "1.8 GiB", "101 GiB", "0 MiB"]
