"""One URL for many servers, as clients see it; the servers compute nothing."""

import threading
from urllib.parse import urlencode

import pytest

pytest.importorskip("starlette", reason="needs ray[serve]: pip install -r farm/requirements.txt")

from support.doors import ID, hold, prompt  # noqa: E402

from farm.verdict import Limits  # noqa: E402
from tools.waiting import wait_until  # noqa: E402


def test_a_client_hears_of_its_own_prompt_from_start_to_end_and_finds_the_picture(servers, opened):
    [comfy] = servers(1000)
    door = opened(comfy)
    with door.listening("me") as until, door.listening("other") as others:
        mine = door.queue(prompt(seed=7), client_id="me", prompt_id=ID)
        heard = until("executing", None)
        door.queue(prompt(seed=8, filename_prefix="b"), client_id="other")
        assert ID not in str(others("executing", None))
    assert mine == ID
    events = [one["type"] for one in heard if isinstance(one, dict) and one["type"] != "status"]
    assert events == ["execution_start", "executing", "executed", "execution_success", "executing"]
    assert {one["data"]["prompt_id"] for one in heard
            if isinstance(one, dict) and one["type"] != "status"} == {ID}
    [executed] = [one for one in heard if isinstance(one, dict) and one["type"] == "executed"]
    entry = door.entry(ID)
    assert executed["data"]["output"] == entry["outputs"]["1"]
    picture = entry["outputs"]["1"]["images"][0]
    assert door.client.get_bytes("/api/view?" + urlencode(picture)) == b"7"
    assert entry["prompt"][1:3] == [ID, prompt(seed=7)]
    assert list(door.get("/history")) == [ID, *(set(door.get("/history")) - {ID})]


def test_the_panels_rerun_goes_guarded_to_a_server_with_room_and_is_queued_once(servers, opened):
    first, large = servers(500, 1000)
    door = opened(first, large)
    ended = door.queue(prompt(mib=1500), extra_data={"headroom": {"rescue": False}})
    assert door.entry(ended)["status"]["status_str"] == "error"
    again = [door.post("/api/headroom/rescue", {"prompt_id": ended})[1] for _ in range(2)]
    assert again[0] == again[1] and again[0]["rescued_from"] == ended
    entry = door.entry(again[0]["prompt_id"])
    assert entry["status"]["status_str"] == "success" and entry["farm"]["server"] == large.url
    status, strange = door.post("/headroom/rescue", {"prompt_id": "x"})
    assert status == 400 and "has ended here" in strange["error"]


def test_a_page_of_jobs_has_the_newest_and_the_number_of_all(servers, opened):
    [comfy] = servers(1000)
    door = opened(comfy)
    busy = hold(door, comfy)
    waiting = [door.queue(prompt(seed=n)) for n in range(3)]
    jobs = door.get("/api/jobs?limit=2")
    assert [one["id"] for one in jobs["jobs"]] == waiting[:0:-1]
    assert jobs["pagination"]["total"] == 4 and jobs["pagination"]["has_more"]
    assert door.get(f"/api/jobs/{busy}")["status"] == "in_progress"
    assert door.get(f"/api/jobs/{waiting[0]}")["status"] == "pending"
    door.post("/history", {"delete": [busy, waiting[0]]})  # they have no results yet
    assert door.get("/prompt")["exec_info"]["queue_remaining"] == 4
    door.post("/queue", {"clear": True})
    door.post("/interrupt")
    door.entry(busy)
    door.post("/history", {"clear": True})
    assert door.get("/history") == {}


def test_a_preview_reaches_a_client_in_the_form_that_it_understands(servers, opened):
    door = opened(*servers(1000))
    with door.listening("old") as old, door.listening("new") as new:
        new.socket.send('{"type": "feature_flags", "data": {"supports_preview_metadata": true}}')
        assert new("feature_flags")[-1]["data"] == {"supports_preview_metadata": True}
        door.queue(prompt(), client_id="old")
        second = door.queue(prompt(seed=2), client_id="new")
        [plain] = [one for one in old("executing", None) if isinstance(one, bytes)]
        [whole] = [one for one in new("executing", None) if isinstance(one, bytes)]
    assert plain == b"\0\0\0\1\0\0\0\2picture"
    assert whole.endswith(b"picture") and second.encode() in whole


@pytest.mark.parametrize("broken", [
    b"\0\0\0\4\0\0\0\3{x}picture", b"\0\0\0\4\0\0\0\2[]picture", b"\0\0\0\4\0\0\0\2\xff\xffp",
    b'\0\0\0\4\0\0\0\x11{"image_type":[]}', b"\0\0\0\4", b"",
])
def test_a_broken_preview_is_passed_on_and_its_server_is_still_heard(servers, opened, broken):
    [comfy] = servers(1000)
    door, tell = opened(comfy), comfy.tell

    def broken_first(prompt_id, kind, **data):
        if data.get("preview"):
            comfy.send_frame(comfy.clients[prompt_id], 2, broken)
        tell(prompt_id, kind, **data)

    comfy.tell = broken_first
    with door.listening("me") as until:
        door.queue(prompt(), client_id="me")
        heard = [one for one in until("executing", None) if isinstance(one, bytes)]
    assert len(heard) == 2 and heard[1].endswith(b"\2picture")


def test_files_of_one_name_on_two_servers_are_each_shown_from_their_own(servers, opened):
    small, large = servers(1000, 4000)
    door = opened(small, large)
    small.goes_on.clear()
    first = door.queue(prompt(seed=1))
    wait_until(lambda: small.prompts)
    second = door.queue(prompt(seed=2))
    door.entry(second)
    small.goes_on.set()
    shown = [door.entry(one)["outputs"]["1"]["images"][0] for one in (first, second)]
    assert shown[0]["filename"] == shown[1]["filename"]
    assert [door.client.get_bytes("/view?" + urlencode(one)) for one in shown] == [b"1", b"2"]


def test_a_prompt_out_of_memory_moves_to_the_larger_server_and_its_kind_goes_there(servers, opened):
    small, large = servers(500, 4000)
    door = opened(small, large, after_oom="move")
    with door.listening("me") as until:
        one = door.queue(prompt(mib=3000, seed=1), client_id="me")
        heard = until("executing", None)
    assert door.entry(one)["status"]["status_str"] == "success"
    assert "execution_error" not in [one["type"] for one in heard if isinstance(one, dict)]
    assert door.get(f"/headroom/runs/{one}")["peak_vram_mib"] == 3000  # of the server that ran it
    before = len(small.posts("/prompt"))
    door.entry(door.queue(prompt(mib=3000, seed=2)))
    assert len(small.posts("/prompt")) == before


@pytest.mark.parametrize("mib, guesses, ran_on, tried_on_small", [
    (900, True, "large", 0), (900, False, "large", 1), (9000, True, "large", 1),
    (100, True, "small", 1)])
def test_a_new_kind_goes_by_a_servers_guess_where_that_is_wanted_and_a_larger_one_has_room(
    servers, opened, mib, guesses, ran_on, tried_on_small,
):
    small, large = servers(500, 4000)
    door = opened(names={"small": small.url, "large": large.url}, after_oom="move",
                  guesses=guesses)
    assert door.entry(door.queue(prompt(mib=mib)))["farm"]["server"] == ran_on
    assert len(small.posts("/prompt")) == tried_on_small
    assert door.entry(door.queue(prompt(mib=mib, seed=2)))["farm"]["server"] == ran_on
    assert len(small.posts("/headroom/estimate")) == guesses


def test_a_prompt_that_every_server_refuses_is_refused_with_the_servers_own_words(servers, opened):
    door = opened(*servers(500, 4000))
    status, answer = door.post("/prompt", {"prompt": prompt("Unknown")})
    assert status == 400
    assert answer["node_errors"]["1"]["errors"][0]["message"] == "no such node"
    assert door.get("/history") == {} and door.get("/farm")["remaining"] == 0


def test_an_error_of_its_own_is_told_at_once_and_the_prompt_is_not_tried_again(servers, opened):
    first, second = servers(1000, 1000)
    door = opened(first, second, limits=Limits(errors=0))
    with door.listening("me") as until:
        one = door.queue(prompt(raises="bad"), client_id="me")
        assert until("execution_error")[-1]["data"]["exception_message"] == "bad"
    assert door.entry(one)["status"]["status_str"] == "error"
    assert len(first.posts("/prompt")) + len(second.posts("/prompt")) == 1


@pytest.mark.parametrize("strange", [
    {"status": {"messages": [["executed", None]]}}, {"outputs": {"1": None}}, {"prompt": 3},
], ids=["message", "outputs", "prompt"])
def test_an_entry_that_nobody_understands_fails_its_prompt_alone_and_its_server_goes_on(
    servers, opened, strange,
):
    [comfy] = servers(1000)
    door, answer = opened(comfy), comfy.answer

    def strangely(path, *rest):
        status, found = answer(path, *rest)
        is_entry = path.startswith("/history/")
        return status, {key: {**found[key], **strange} for key in found} if is_entry else found

    comfy.answer = strangely
    with door.listening("me") as until:
        bad = door.queue(prompt(seed=1), client_id="me")
        said = until("execution_error")[-1]["data"]["exception_message"]
    assert said.startswith(f"{comfy.url} answered something strange: ")
    comfy.answer = answer
    good = door.queue(prompt(seed=2))
    assert door.entry(good)["status"]["status_str"] == "success"
    assert [(one["id"], one["status"]) for one in door.get("/api/jobs")["jobs"]] == [
        (good, "completed"), (bad, "failed")]


def test_the_queue_is_seen_and_prompts_are_taken_out_and_interrupted(servers, opened):
    [comfy] = servers(1000)
    door = opened(comfy)
    with door.listening("me") as until:
        busy = door.queue(prompt(seconds=100), client_id="me")
        wait_until(lambda: comfy.prompts)
        waiting = [door.queue(prompt(seed=n), extra_data={"api_key_comfy_org": "secret"})
                   for n in range(3)]
        queue = door.get("/queue")
        assert [item[1] for item in queue["queue_running"]] == [busy]
        assert [item[1] for item in queue["queue_pending"]] == waiting
        assert "secret" not in str(queue)
        assert door.get("/prompt") == {"exec_info": {"queue_remaining": 4}}
        jobs = door.get("/api/jobs?status=pending,in_progress&limit=2&sort_order=asc")
        assert [one["status"] for one in jobs["jobs"]] == ["in_progress", "pending"]
        assert jobs["pagination"]["total"] == 4
        door.post("/queue", {"delete": [waiting[0], busy, "none"]})
        assert door.post(f"/api/jobs/{waiting[1]}/cancel")[1] == {"cancelled": True}
        assert [item[1] for item in door.get("/queue")["queue_pending"]] == waiting[2:]
        door.post("/queue", {"clear": True})
        door.post("/interrupt", {"prompt_id": busy})
        assert until("execution_interrupted")[-1]["data"]["prompt_id"] == busy
    assert list(door.get("/history")) == [busy]
    assert door.get(f"/api/jobs/{busy}")["status"] == "cancelled"
    door.post("/history", {"delete": [busy]})
    assert door.get("/history") == {}


def test_uploads_and_free_reach_every_server_and_the_rest_one(servers, opened):
    first, second = servers(1000, 2000)
    door = opened(first, second)
    first.files["picture.png"] = b"pixels"
    form = (b'--end\r\nContent-Disposition: form-data; name="image"; filename="picture.png"'
            b"\r\n\r\npixels\r\n--end--\r\n")
    kind = {"Content-Type": "multipart/form-data; boundary=end"}
    assert door.post("/api/upload/image", form, kind)[1]["name"] == "picture.png"
    [copied] = second.posts("/upload/image")
    assert "pixels" in copied and "overwrite" in copied
    door.post("/free", {"unload_models": True})
    assert [len(one.posts("/free")) for one in (first, second)] == [1, 1]
    assert door.get("/object_info")["of"] == 1000
    assert [one["vram_total"] >> 20 for one in door.get("/system_stats")["devices"]] == [1000, 2000]


def test_many_clients_at_once_get_each_their_own_results(servers, opened):
    door = opened(*servers(1000, 1000, 1000))
    found = {}

    def work(name):
        ids = [door.queue(prompt(seed=f"{name}-{n}")) for n in range(5)]
        for number, one in enumerate(ids):
            picture = door.entry(one)["outputs"]["1"]["images"][0]
            found[name, number] = door.entry(one)["prompt"][2]["1"]["inputs"]["seed"], picture

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert {key: seed for key, (seed, _) in found.items()} == {
        (name, number): f"{name}-{number}" for name in range(4) for number in range(5)}
