"""What a door refuses: strangers, other pages' scripts, large and broken bodies, foreign paths."""

import http.client
import json
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette", reason="needs ray[serve]: pip install -r farm/requirements.txt")

import websocket  # noqa: E402
from support.doors import ANSWER_SECONDS, OpenDoor, prompt  # noqa: E402

from fake_comfy import FakeComfy  # noqa: E402
from tools.waiting import wait_until  # noqa: E402

TOKEN = "s3cret"
CHANGES = ["/prompt", "/queue", "/interrupt", "/free", "/history", "/upload/image", "/api/prompt",
           "/jobs/cancel", "/jobs/x/cancel", "/users", "/headroom/purge"]


@pytest.fixture(scope="module")
def comfy():
    server = FakeComfy(1000)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def door(comfy, tmp_path_factory):
    opened = OpenDoor(tmp_path_factory.mktemp("door"), [comfy.url])
    wait_until(lambda: opened.states() == ["idle"])
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def locked(comfy, tmp_path_factory):
    opened = OpenDoor(tmp_path_factory.mktemp("locked"), [comfy.url], token=TOKEN)
    wait_until(lambda: opened.client.get("/object_info", {"X-Farm-Token": TOKEN})[0] == 200)
    yield opened
    opened.close()


def answers(door, comfy):
    """Whether the door still works and has asked its server for nothing."""
    return door.get("/object_info")["of"] == comfy.total_mib


@pytest.mark.parametrize("shown", [
    {}, {"X-Farm-Token": "wrong"}, {"Authorization": f"Basic {TOKEN}"},
    {"Cookie": "farm_token=; ,=;;"}, {"X-Farm-Token": ""},
])
def test_without_its_token_nothing_is_queued_cancelled_freed_or_uploaded(locked, comfy, shown):
    before = len(comfy.asked)
    for path in CHANGES:
        status, answer = locked.post(path, {"prompt": prompt(), "unload_models": True}, shown)
        assert status == 401 and "token" in answer["error"]
    assert [one for one in comfy.asked[before:] if one[0] == "POST"] == []


def test_the_token_opens_by_header_and_a_browser_by_its_address_once(locked):
    for shown in ({"X-Farm-Token": TOKEN}, {"Authorization": f"Bearer {TOKEN}"}):
        assert locked.post("/queue", {}, shown)[0] == 200
    browser = http.client.HTTPConnection(urlsplit(locked.url).netloc, timeout=ANSWER_SECONDS)
    browser.request("GET", f"/?token={TOKEN}")
    page = browser.getresponse()  # a Client would follow to the address without the token
    browser.close()
    assert page.status == 303 and page.headers["location"] == "/"
    cookie, _, rules = page.headers["set-cookie"].partition(";")
    assert "httponly" in rules.lower() and "samesite=strict" in rules.lower()
    assert locked.post("/queue", {}, {"Cookie": cookie})[0] == 200
    assert locked.client.get("/?token=wrong")[0] == 401
    assert locked.client.get("/history")[0] == 401


def test_a_websocket_needs_the_token_too(locked):
    address = locked.url.replace("http", "ws") + "/ws?clientId=a"
    with pytest.raises(websocket.WebSocketBadStatusException):
        websocket.create_connection(address, timeout=ANSWER_SECONDS)
    heard = websocket.create_connection(address, timeout=ANSWER_SECONDS,
                                        header=[f"X-Farm-Token: {TOKEN}"])
    assert json.loads(heard.recv())["type"] == "status"
    heard.close()


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://["])
def test_the_script_of_another_page_is_turned_away(door, comfy, origin):
    assert door.post("/prompt", {"prompt": prompt()}, {"Origin": origin})[0] == 403
    with pytest.raises(websocket.WebSocketBadStatusException):
        websocket.create_connection(door.url.replace("http", "ws") + "/ws", origin=origin)
    assert answers(door, comfy)
    assert door.post("/queue", {}, {"Origin": door.url})[0] == 200


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"3", b"null", b"[" * 100_000, b"\xff\xfe", b'{"prompt": 3}',
    b'{"prompt": {}}',
    b'{"prompt": {"1": {"class_type": "A"}}}', b'{"prompt": {"1": []}}',
    b'{"prompt": {"1": {"class_type": "A", "inputs": {}}}, "extra_data": 3}',
    b'{"prompt": {"1": {"class_type": "A", "inputs": {}}}, "number": NaN}',
    b'{"prompt": {"1": {"class_type": "A", "inputs": {}}}, "number": 1' + b"0" * 400 + b"}",
    b'{"prompt": {"1": {"class_type": "A", "inputs": {}}}, "prompt_id": ["a"]}',
    b'{"prompt": {"1": {"class_type": "A", "inputs": {}}}, "prompt_id": "\\ud800"}',
    b'{"prompt": {"1": {"class_type": "A", "inputs": {}}}, "client_id": {"a": 1}}',
    b'{"prompt": {"1": {"class_type": "A", "inputs": {}}}, "prompt_id": "' + b"a" * 300 + b'"}',
])
def test_a_bad_prompt_is_one_sentence_and_nothing_is_queued(door, comfy, body):
    status, answer = door.post("/prompt", body)
    assert status == 400, answer
    assert isinstance(answer["error"]["message"], str)
    assert door.get("/farm")["remaining"] == 0


@pytest.mark.parametrize("path", ["/queue", "/history", "/free", "/jobs/cancel", "/interrupt"])
@pytest.mark.parametrize("body", [b"{", b"[]", b"[" * 100_000, b'{"delete": 3, "job_ids": [[]]}',
                                  b'{"delete": [[], {}, null], "prompt_id": ["x"]}',
                                  b'{"delete": ["\\ud800"], "job_ids": ["\\ud800"]}'])
def test_a_bad_wish_changes_nothing_and_the_door_goes_on(door, comfy, path, body):
    assert door.post(path, body)[0] in (200, 400)
    assert answers(door, comfy)


@pytest.mark.parametrize("query", [
    "jobs?limit=x", "jobs?limit=0", "jobs?status=none", "jobs?offset=x", "jobs?limit=-1",
    "jobs?limit=" + "9" * 20, "history?max_items=" + "9" * 20, "history?offset=x",
])
def test_a_bad_query_of_a_list_is_one_sentence(door, query):
    status, answer = door.client.get(f"/api/{query}")
    assert status == 400 and answer["error"]


def test_a_rerun_of_an_id_that_is_no_text_is_one_sentence(door):
    status, answer = door.post("/headroom/rescue", {"prompt_id": "\ud800"})
    assert status == 400 and answer["error"]


@pytest.mark.parametrize("extra", [
    {"extra_pnginfo": 3}, {"extra_pnginfo": {"workflow": []}}, {"create_time": "x"},
    {"client_id": {"a": 1}}, {"headroom": {"rescue": "x"}},
])
def test_odd_extra_data_of_one_client_breaks_nobodys_lists(door, comfy, extra):
    done = door.queue(prompt(), extra_data=extra)
    assert door.entry(done)
    for path in ("/api/jobs", f"/api/jobs/{done}", "/history", "/queue"):
        assert done in json.dumps(door.get(path)) or path == "/queue"


@pytest.mark.parametrize("text", ["\ud800", "\0", "\ue000", "\u202e"])
def test_odd_letters_in_one_clients_prompt_break_nobodys_lists(door, text):
    done = door.queue(prompt(text=text))
    assert door.entry(done)["prompt"][2] == prompt(text=text)
    assert door.get("/history")[done]["prompt"][2] == prompt(text=text)
    assert door.get(f"/api/jobs/{done}")["workflow"]["prompt"] == prompt(text=text)


def test_a_fault_of_the_doors_own_is_no_bad_request(comfy, tmp_path, monkeypatch):
    def broken(*_):
        raise OverflowError("a fault of our own")

    monkeypatch.setattr("farm.store.Store.page", broken)
    opened = OpenDoor(tmp_path, [comfy.url])
    try:
        assert opened.client.get("/jobs")[0] == 500
    finally:
        opened.close()


@pytest.mark.parametrize("headers, status", [
    ({"Content-Length": str(2 << 20)}, 413), ({"Content-Length": "1" + "0" * 30}, 400),
    ({"Transfer-Encoding": "chunked"}, 411),
])
def test_a_body_has_a_limit_and_tells_its_length(door, comfy, headers, status):
    for path in ("/prompt", "/upload/image"):
        assert door.post(path, headers=headers)[0] == status
    assert answers(door, comfy)


@pytest.mark.parametrize("path", [
    "/../../../../etc/passwd", "/extensions/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
    "//evil.example/x", "/@evil.example", "/view?filename=/etc/passwd&type=output",
    "/view?filename=../../etc/passwd&subfolder=@no_such_server/..", "/http://evil.example/x",
    "/view?filename=passwd&subfolder=/etc&type=input", "/view?filename=%00", "/\\evil.example",
])
def test_no_path_reads_a_file_here_or_asks_another_host(door, comfy, path):
    before = len(comfy.asked)
    status, _, data = door.client.request("GET", path)
    assert status in (400, 404, 502) and b"root:" not in data
    assert all(one[0] == "GET" for one in comfy.asked[before:])
    assert answers(door, comfy)


def test_the_tag_of_a_server_is_taken_off_and_the_rest_is_the_servers_to_judge(door, comfy):
    tag = "@" + comfy.url.rpartition("/")[2].replace(":", "_")
    comfy.files["a.png"] = b"pixels"
    for folder, status in ((tag, 200), (f"{tag}/b", 200), ("@elsewhere_1", 200)):
        assert door.client.get(f"/view?filename=a.png&subfolder={folder}")[0] == status


@pytest.mark.parametrize("message", ["{", "[]", "null", "[" * 50_000, b"\x00\x01", "{}",
                                     '{"type": "feature_flags", "data": 3}'])
def test_odd_words_over_the_websocket_end_that_connection_at_most(door, comfy, message):
    address = door.url.replace("http", "ws") + "/ws?clientId=odd"
    heard = websocket.create_connection(address, timeout=ANSWER_SECONDS)
    heard.recv()
    (heard.send_binary if isinstance(message, bytes) else heard.send)(message)
    done = door.queue(prompt(seed=1))
    assert door.entry(done)
    heard.close()


def test_the_token_and_cookies_of_a_client_stay_with_the_door(locked, comfy, monkeypatch):
    seen = []
    handler = comfy.RequestHandlerClass
    monkeypatch.setattr(handler, "do_GET", lambda self: (
        seen.append(dict(self.headers)), self.reply(None))[1])
    locked.client.get("/object_info", {
        "Authorization": f"Bearer {TOKEN}", "X-Farm-Token": TOKEN, "Cookie": f"farm_token={TOKEN}"})
    assert seen and TOKEN not in str(seen)
