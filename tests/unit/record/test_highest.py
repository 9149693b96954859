"""Peaks are kept across runs until the user resets them."""

from types import SimpleNamespace

from support.recorder import Records

from headroom.record.highest import KeptPeaks

MIB = 2**20


def run(prompt_id, peak_mib, rss_mib=10, ended=True):
    peak = SimpleNamespace(at_least=peak_mib * MIB)
    return SimpleNamespace(prompt_id=prompt_id, devices=("cuda:0", "cuda:1"), peaks=(peak, None),
                           peak_rss_bytes=rss_mib * MIB, ended=object() if ended else None)


def now(used_mib=1, rss_mib=1):
    device = SimpleNamespace(device="cuda:0", used_bytes=used_mib * MIB)
    return SimpleNamespace(devices=[device], rss_bytes=rss_mib * MIB)


def held(peaks, *runs, **figures):
    return peaks.as_json(now(**figures), Records(*runs))


def test_the_highest_of_all_runs_and_of_what_is_in_use_now_is_held():
    peaks = KeptPeaks()
    peaks.run_is_over(run("a", 300))
    peaks.run_is_over(run("b", 200, rss_mib=50))
    assert held(peaks)["devices"] == {"cuda:0": 300}
    assert held(peaks)["rss_mib"] == 50
    assert held(peaks, used_mib=400)["devices"] == {"cuda:0": 400}
    assert held(peaks)["devices"] == {"cuda:0": 400}


def test_a_run_that_is_not_over_counts_already_and_an_older_one_not_again():
    peaks = KeptPeaks()
    assert held(peaks, run("now", 500, ended=False))["devices"] == {"cuda:0": 500}
    peaks.reset()
    assert held(peaks, run("before", 900))["devices"] == {"cuda:0": 1}


def test_a_reset_begins_anew_and_says_since_when():
    peaks = KeptPeaks()
    peaks.run_is_over(run("a", 300))
    first = held(peaks)["since"]
    peaks.reset()
    again = held(peaks, used_mib=7)
    assert again["devices"] == {"cuda:0": 7} and again["since"] >= first
