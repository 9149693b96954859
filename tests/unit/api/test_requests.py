"""A bad body gets one sentence, before anything is done."""

import json

import pytest

from headroom.api.memory_now import memory_answer
from headroom.api.requests import (
    BadRequest,
    estimate_request,
    into_gib_asked,
    offload_request,
    purge_request,
    runs_asked,
)
from headroom.host.types import Held, ModelFacts
from headroom.measure.snapshot import DeviceMemory, Snapshot

MIB = 1024 * 1024
DEFAULTS = {"unload": "all models", "keep": [], "only_below_free_mib": 0, "free_ram": False,
            "reset_node_cache": False, "free_mib": None}


def body(**fields):
    return json.dumps(fields).encode()


@pytest.mark.parametrize("empty", [b"", b"  \n", b"{}"])
def test_an_empty_purge_means_all_defaults(empty):
    assert purge_request(empty) == DEFAULTS


def test_a_purge_can_say_everything_the_node_can():
    everything = dict(unload="all but keep", keep=["m1", "m2"], only_below_free_mib=512,
                      free_ram=True, reset_node_cache=True, free_mib=7)
    assert purge_request(body(**everything)) == everything


def test_free_mib_of_0_differs_from_no_free_mib():
    assert purge_request(body(free_mib=0)) == {**DEFAULTS, "free_mib": 0}


@pytest.mark.parametrize(("bad", "named"), [
    (b"{", "not JSON"),
    (b"\xff\xfe", "not JSON"),
    (b"[" * 100_000, "not JSON"),
    (b"[]", "JSON object"),
    (b"3", "JSON object"),
    (body(unlaod="all models"), "unlaod"),
    (body(unload="everything"), "'all models'"),
    (body(unload=["all models"]), "unload"),
    (body(unload=None), "unload"),
    (body(free_ram=1), "free_ram"),
    (body(reset_node_cache="yes"), "reset_node_cache"),
    (body(only_below_free_mib=-1), "only_below_free_mib"),
    (body(only_below_free_mib=True), "only_below_free_mib"),
    (body(only_below_free_mib=1.5), "only_below_free_mib"),
    (body(free_mib=-1), "free_mib"),
    (body(free_mib=10**30), "free_mib"),
    (body(free_mib="all"), "free_mib"),
    (b'{"free_mib": NaN}', "free_mib"),
    (body(keep="m1", unload="all but keep"), "keep"),
    (body(keep=[1], unload="all but keep"), "keep"),
    (body(keep=["m1"]), "all but keep"),
    (body(unload="all but keep"), "keep"),
])
def test_a_bad_purge_is_refused_with_one_sentence(bad, named):
    with pytest.raises(BadRequest) as caught:
        purge_request(bad)
    sentence = str(caught.value)
    assert named in sentence and sentence.startswith("Expected") and sentence.endswith(".")
    assert len(sentence) < 300 and "\n" not in sentence


@pytest.mark.parametrize("given", [None, [], {}, {"1": 5}, {"nodes": [], "links": []}])
def test_an_estimate_of_what_is_no_prompt_in_api_format_is_refused(given):
    with pytest.raises(BadRequest, match="in API format"):
        estimate_request(body(prompt=given))


def test_an_offload_names_its_model():
    assert offload_request(body(model="m3")) == {"value": "m3", "scope": "this model", "to": "CPU"}
    assert offload_request(body(model="m3", scope="every other model", to="disk")) == {
        "value": "m3", "scope": "every other model", "to": "disk"}


@pytest.mark.parametrize(
    "bad",
    [b"", b"null", body(), body(model=3), body(model=None), body(model="m", to="/etc/passwd"),
     body(model="m", scope=""), body(model="m", path="x")],
)
def test_a_bad_offload_is_refused_with_one_sentence(bad):
    with pytest.raises(BadRequest, match=r"^Expected .*\.$"):
        offload_request(bad)


def test_the_number_of_runs_is_limited():
    assert runs_asked({}) == (50, True) and runs_asked({"limit": "7"}) == (7, True)
    assert runs_asked({"nodes": "0"}) == (50, False)


@pytest.mark.parametrize("bad", ["0", "51", "-1", "ten", "", "1e1", "٣", "9" * 5000])
def test_a_bad_number_of_runs_is_refused(bad):
    with pytest.raises(BadRequest, match="limit"):
        runs_asked({"limit": bad})


@pytest.mark.parametrize(("text", "gib"), [("8", 8.0), ("7.33333", 7.33333), ("0.0004", 0.0004)])
def test_a_size_in_gib_may_have_any_number_of_decimals(text, gib):
    assert into_gib_asked({"into_gib": text}) == gib and into_gib_asked({}) is None


@pytest.mark.parametrize("bad", ["0", "0.0", "10000", "-1", "1e1", "nan", "inf", "٣", "8 ", "8."])
def test_what_is_no_size_in_gib_is_refused(bad):
    with pytest.raises(BadRequest, match="into_gib"):
        into_gib_asked({"into_gib": bad})


def gpu(**changes):
    values = dict(
        device="cuda:0", name="A card", total_bytes=1000 * MIB, driver_free_bytes=300 * MIB,
        allocated_bytes=350 * MIB, reserved_bytes=400 * MIB, dynamic_bytes=100 * MIB,
    )
    return DeviceMemory(**{**values, **changes})


def model(name, loaded_mib, device="cuda:0"):
    return Held(ModelFacts(name, "VAE", "Net", None, 500 * MIB), device, loaded_mib * MIB)


def answer(device, *models):
    return memory_answer(Snapshot((device,), MIB, MIB), list(models), busy=False)


def test_the_parts_of_a_device_add_up_to_its_size():
    device = answer(gpu(), model("m1", 200), model("m2", 50), model("m3", 99, "cuda:1"))[
        "devices"
    ][0]
    assert device["models_mib"] == 250 and device["other_torch_mib"] == 250
    assert device["other_processes_mib"] == 200 and device["free_mib"] == 300
    parts = ("models_mib", "other_torch_mib", "other_processes_mib", "free_mib")
    assert sum(device[part] for part in parts) == device["total_mib"]


def test_figures_that_the_driver_does_not_tell_are_null():
    device = answer(gpu(total_bytes=None, driver_free_bytes=None, dynamic_bytes=None))["devices"][0]
    assert device["other_processes_mib"] is None and device["total_mib"] is None
    assert device["free_mib"] is None and device["used_mib"] == 400


def test_a_server_without_a_gpu_has_no_devices():
    found = memory_answer(Snapshot((), 5 * MIB, 7 * MIB), [], busy=True)
    assert found["devices"] == [] and found["busy"] is True
    assert found["ram"]["rss_mib"] == 5 and found["ram"]["available_mib"] == 7
