"""The client against a small HTTP server that answers as ComfyUI does."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tools.client import (
    Client,
    PromptFailed,
    PromptInterrupted,
    PromptInvalid,
    cached_nodes,
    node_texts,
)

ERROR = {"node_id": "3", "node_type": "K", "exception_type": "Boom", "exception_message": "bad\n"}


class Server(BaseHTTPRequestHandler):
    """Answers POST from `answers`; each GET of a history takes the next of `histories`."""

    answers: dict
    histories: list
    seen: list

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append((self.path, body))
        self.reply(*self.answers.get(self.path, (200, {})))

    def do_GET(self):
        if not self.path.startswith("/history/"):
            return self.reply(404, "nothing here")
        entry = self.histories.pop(0) if len(self.histories) > 1 else self.histories[0]
        return self.reply(200, {} if entry is None else {"p1": entry})

    def reply(self, status, answer):
        data = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words):
        return


@pytest.fixture
def host():
    handler = type("OneHost", (Server,), {"answers": {}, "histories": [None], "seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    handler.answers["/prompt"] = (200, {"prompt_id": "p1", "node_errors": {}})
    handler.client = Client(f"http://127.0.0.1:{server.server_address[1]}/")
    yield handler
    server.shutdown()
    thread.join()
    server.server_close()


def entry(status, *messages):
    return {"status": {"status_str": status, "messages": list(messages)}, "outputs": {}}


def test_a_prompt_is_waited_for_until_its_history_is_there(host):
    host.histories[:] = [None, None, entry("success")]
    assert host.client.run({"1": {}})["prompt_id"] == "p1"
    assert host.seen == [("/prompt", {"prompt": {"1": {}}})]


def test_the_client_id_and_extra_data_are_sent_only_when_given(host):
    host.client.queue({}, client_id="me", extra_data={"a": 1})
    expected = {"prompt": {}, "client_id": "me", "extra_data": {"a": 1}}
    assert host.seen == [("/prompt", expected)]


def test_a_failing_node_is_named_with_its_own_words(host):
    host.histories[:] = [entry("error", ["execution_error", ERROR])]
    with pytest.raises(PromptFailed, match=r"Node 3 \(K\) failed with Boom: bad$") as caught:
        host.client.run({})
    assert not isinstance(caught.value, PromptInterrupted)


@pytest.mark.parametrize("kind, text, is_out", [
    ("torch.OutOfMemoryError", "Allocation on device", True), ("OomGuardError", "tried all", True),
    ("RuntimeError", "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", True),
    ("RuntimeError", "DefaultCPUAllocator: can't allocate memory", False), ("Boom", "bad", False),
])
def test_an_error_is_out_of_gpu_memory_by_the_packs_own_table(kind, text, is_out):
    error = {**ERROR, "exception_type": kind, "exception_message": text}
    assert PromptFailed(entry("error", ["execution_error", error])).out_of_memory is is_out


def test_an_interrupted_prompt_is_told_apart_from_a_failed_one(host):
    host.histories[:] = [entry("error", ["execution_interrupted", {"node_id": "2"}])]
    with pytest.raises(PromptInterrupted):
        host.client.run({})


@pytest.mark.parametrize("status", [400, 200])
def test_a_prompt_that_is_refused_in_whole_or_in_part_is_an_error(host, status):
    host.answers["/prompt"] = (status, {"prompt_id": "p1", "node_errors": {"7": "no value"}})
    with pytest.raises(PromptInvalid, match="no value") as caught:
        host.client.queue({})
    assert caught.value.status == status


def test_a_prompt_that_never_ends_is_given_up(host):
    with pytest.raises(TimeoutError, match="did not finish within 0.1 s"):
        host.client.run({}, timeout=0.1)


def test_an_error_status_comes_back_with_its_text(host):
    assert host.client.get("/else") == (404, "nothing here")
    with pytest.raises(RuntimeError, match="answered 404"):
        host.client.get_json("/else")


def test_free_and_interrupt_post_what_comfyui_reads(host):
    host.client.free(free_memory=False)
    host.client.interrupt()
    free = ("/free", {"unload_models": True, "free_memory": False})
    assert host.seen == [free, ("/interrupt", {})]


def test_texts_and_cached_nodes_are_read_from_the_history():
    found = entry("success", ["execution_cached", {"nodes": ["1", "2"]}])
    found["outputs"] = {"4": {"text": ["a", "b"]}, "5": {"images": []}}
    assert cached_nodes(found) == {"1", "2"} and node_texts(found) == {"4": "a\nb"}
