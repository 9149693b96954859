"""One precedence: the prompt, then the server's environment, then the browser's user."""

import logging

import pytest

from headroom.rescue.settings import guards_all, rescue_of, with_browser_wish
from headroom.start import tell_wrong_values

AUTOMATIC = {"Headroom.Rescue.AfterOutOfMemory": "run it again"}
NOTHING = {"Headroom.Rescue.AfterOutOfMemory": "nothing"}


def own(**words):
    return {"headroom": words}


@pytest.mark.parametrize(("extra", "environment", "found"), [
    ({}, {}, "offer"),
    (None, {}, "offer"),
    (own(rescue=True), {"HEADROOM_RESCUE": "off"}, "automatic"),
    (own(rescue=False), {"HEADROOM_RESCUE": "automatic"}, "off"),
    ({}, {"HEADROOM_RESCUE": "automatic"}, "automatic"),
    ({}, {"HEADROOM_RESCUE": " Off "}, "off"),
    (with_browser_wish({}, AUTOMATIC), {}, "automatic"),
    (with_browser_wish({}, NOTHING), {"HEADROOM_RESCUE": "offer"}, "offer"),
    (with_browser_wish(own(rescue=True), NOTHING), {}, "automatic"),
    (own(rescue="yes"), {"HEADROOM_RESCUE": "automatic"}, "automatic"),
])
def test_the_prompt_wins_over_the_environment_and_that_over_the_browser(extra, environment, found):
    assert rescue_of(extra, environment) == found


@pytest.mark.parametrize(("extra", "environment", "browser", "found"), [
    ({}, {}, {}, False),
    (own(guard=True), {"HEADROOM_GUARD": "off"}, {}, True),
    (own(guard=False), {"HEADROOM_GUARD": "all"}, {}, False),
    ({}, {"HEADROOM_GUARD": "all"}, {"Headroom.Rescue.GuardEveryRun": False}, True),
    ({}, {"HEADROOM_GUARD": "off"}, {"Headroom.Rescue.GuardEveryRun": True}, False),
    ({}, {}, {"Headroom.Rescue.GuardEveryRun": True}, True),
])
def test_guarding_every_run_follows_the_same_order(extra, environment, browser, found):
    assert guards_all(extra, environment, browser) is found


def test_a_prompt_does_not_keep_a_setting_that_its_user_has_changed():
    once = with_browser_wish({"client_id": "a"}, AUTOMATIC)
    assert with_browser_wish(once, {}) == {"client_id": "a", "headroom": {}}


def test_extra_data_without_our_settings_stays_the_same_object():
    extra = {"client_id": "a"}
    assert with_browser_wish(extra, {}) is extra
    assert with_browser_wish(None, {}) is None
    assert with_browser_wish("nonsense", AUTOMATIC) == "nonsense"


@pytest.mark.parametrize(("call", "sentence"), [
    (lambda: rescue_of({}, {"HEADROOM_RESCUE": "sometimes"}),
     "expected HEADROOM_RESCUE to be off, offer or automatic, but got 'sometimes'"),
    (lambda: guards_all({}, {"HEADROOM_GUARD": "some"}, {}),
     "expected HEADROOM_GUARD to be off or all, but got 'some'"),
    (lambda: rescue_of({"headroom": {"rescue": 1}}, {}),
     "expected extra_data.headroom.rescue to be true or false, but got 1"),
    (lambda: rescue_of({"headroom": [1]}, {}), "expected extra_data.headroom to be an object"),
])
def test_a_wrong_word_is_one_warning_that_lists_the_right_ones(caplog, call, sentence):
    with caplog.at_level(logging.WARNING, "headroom"):
        call()
        call()
    [told] = caplog.messages
    assert sentence in told


def test_a_wrong_setting_that_only_errors_need_is_reported_at_start(monkeypatch, caplog):
    names = ["HEADROOM_RESCUE", "HEADROOM_GUARD", "HEADROOM_RERUN_DISK_MIB",
             "HEADROOM_EMBEDDING_CACHE_MIB"]
    for name in names:
        monkeypatch.setenv(name, "some")
    tell_wrong_values()
    tell_wrong_values()
    assert [record.getMessage().split()[2] for record in caplog.records] == names
