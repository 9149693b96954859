"""An HTTP server that answers as ComfyUI with Headroom does, and computes nothing.

    python lab/fake_comfy.py --port N --mib N

A prompt's nodes say by their inputs what is to happen: `mib` of memory is taken for `seconds`, a
file named `filename_prefix` with the text `seed` is saved. More memory than there is ends in an
out-of-memory error; with `rescue` and no more than twice what is there, a rerun succeeds. Over its
WebSocket it tells a prompt's client how far it is, as ComfyUI does.
"""

import argparse
import base64
import contextlib
import hashlib
import json
import struct
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

OUT_OF_MEMORY = {"node_id": "1", "node_type": "Fake", "exception_type": "torch.OutOfMemoryError",
                 "exception_message": "Allocation on device"}


class FakeComfy(ThreadingHTTPServer):
    """A server with `total_mib` of memory; what it was asked is in `asked`, `runs` counts keys."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, total_mib=1000, port=0, headroom=True):
        super().__init__(("127.0.0.1", port), _Handler)
        self.total_mib, self.other_mib, self.headroom = total_mib, 0, headroom
        self.asked, self.prompts, self.history, self.records, self.files = [], {}, {}, {}, {}
        self.sockets, self.clients = {}, {}  # client → file; prompt → client
        self.silent, self.goes_on = threading.Event(), threading.Event()
        self.goes_on.set()  # cleared: prompts do not end
        self.lock, self.telling = threading.Lock(), threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def room_mib(self):
        return self.total_mib - self.other_mib

    def stop(self):
        self.shutdown()
        self.server_close()
        for socket in list(self.sockets.values()):
            with contextlib.suppress(OSError):  # its client has gone
                socket.shutdown(2)

    def posts(self, path):
        """The bodies that were posted there."""
        return [body for method, where, body in self.asked if (method, where) == ("POST", path)]

    # -- what the routes do

    def queue(self, body):
        prompt, prompt_id = body["prompt"], body.get("prompt_id") or str(uuid.uuid4())
        bad = [key for key, node in prompt.items() if node["class_type"] == "Unknown"]
        if bad:
            return 400, {"error": {"message": "Prompt is invalid"}, "node_errors": {
                key: {"class_type": "Unknown", "errors": [{"message": "no such node",
                                                          "details": key}]} for key in bad}}
        self.prompts[prompt_id] = prompt
        self.clients[prompt_id] = body.get("extra_data", {}).get("client_id")
        extra = body.get("extra_data", {}).get("headroom", {})
        threading.Thread(target=self.work, args=(prompt_id, prompt, extra), daemon=True).start()
        return 200, {"prompt_id": prompt_id, "number": 1, "node_errors": {}}

    def tell(self, prompt_id, kind, preview=None, **data):
        """Send an event to the client whose prompt it is, or a preview with its metadata."""
        if preview is None:
            text = json.dumps({"type": kind, "data": {"prompt_id": prompt_id, **data}}).encode()
            return self.send_frame(self.clients.get(prompt_id), 1, text)
        about = json.dumps({"prompt_id": prompt_id, "image_type": "image/png"}).encode()
        self.send_frame(self.clients.get(prompt_id), 2,
                        struct.pack(">II", 4, len(about)) + about + preview)

    def send_frame(self, client, kind, data):
        length = bytes([len(data)]) if len(data) < 126 else b"\x7e" + struct.pack(">H", len(data))
        with self.telling, contextlib.suppress(KeyError, OSError):  # nobody listens
            self.sockets[client].sendall(bytes([0x80 | kind]) + length + data)

    def work(self, prompt_id, prompt, extra):
        self.tell(prompt_id, "execution_start")
        self.tell(prompt_id, "executing", node="1")
        self.tell(prompt_id, "", preview=b"picture")
        self.carry_out(prompt_id, prompt, extra)
        self.tell(prompt_id, "executing", node=None)

    def carry_out(self, prompt_id, prompt, extra):
        inputs = {name: value for node in prompt.values() for name, value in node["inputs"].items()}
        until = time.monotonic() + inputs.get("seconds", 0)
        while prompt_id in self.prompts and not (
                time.monotonic() > until and self.goes_on.is_set()):
            time.sleep(0.01)
        with self.lock:
            if self.prompts.pop(prompt_id, None) is None:
                return self.end(prompt_id, "execution_interrupted", {})
            mib, room = inputs.get("mib", 0), self.room_mib
            if mib <= room or extra.get("guard") and mib <= 2 * room:
                return self.succeed(prompt_id, inputs, min(mib, room), mib > room)
            if inputs.get("raises"):
                return self.fail(prompt_id, inputs)
            second = str(uuid.uuid4()) if extra.get("rescue") and mib <= 2 * room else None
            self.end(prompt_id, "execution_error", OUT_OF_MEMORY, rescued_as=second)
            if second is not None:
                self.succeed(second, inputs, room, True)

    def fail(self, prompt_id, inputs):
        self.end(prompt_id, "execution_error", {"exception_message": str(inputs["raises"])})

    def succeed(self, prompt_id, inputs, mib, recovered):
        if inputs.get("raises"):
            return self.fail(prompt_id, inputs)
        name = f"{inputs.get('filename_prefix', 'fake')}_00001_.txt"
        self.files[name] = str(inputs.get("seed", 0)).encode()
        self.history[prompt_id] = {
            "outputs": {"1": {"images": [
                {"filename": name, "subfolder": "", "type": "output"},
                {"filename": "preview.png", "subfolder": "", "type": "temp"}]}},
            "status": {"status_str": "success", "messages": []}}
        self.tell(prompt_id, "executed", node="1", output=self.history[prompt_id]["outputs"]["1"])
        self.tell(prompt_id, "execution_success")
        self.records[prompt_id] = {
            "peak_vram_mib": mib + self.other_mib, "rescued_as": None,
            "oom": [{"recovered": True}] if recovered else []}

    def end(self, prompt_id, name, message, rescued_as=None):
        self.history[prompt_id] = {"outputs": {}, "status": {
            "status_str": "error", "messages": [[name, message]]}}
        self.tell(prompt_id, name, **message)
        self.records[prompt_id] = {"peak_vram_mib": self.room_mib, "rescued_as": rescued_as,
                                   "oom": []}

    def answer(self, path, query, body):
        if self.headroom and path == "/headroom/ready":
            wanted, room = int(query.get("free_mib", ["0"])[0]), self.room_mib
            running = len(self.prompts)
            free = 0 if running else room
            return (200 if free >= wanted else 503), {
                "ready": free >= wanted, "device": "sim:0", "free_mib": free, "evictable_mib": 0,
                "running": running, "pending": 0, "reason": "", "wanted_mib": wanted}
        if self.headroom and path == "/headroom/memory":
            return 200, {"devices": [{"device": "sim:0", "total_mib": self.total_mib}], "ram": {}}
        if self.headroom and path.startswith("/headroom/runs/"):
            found = self.records.get(path.rpartition("/")[2])
            return (200, found) if found else (404, {})
        if self.headroom and path == "/headroom/estimate":
            mib = sum(node["inputs"].get("mib", 0) for node in body["prompt"].values())
            return 200, {"needs_mib": [mib, 2 * mib]}
        if path.startswith("/history/"):
            prompt_id = path.rpartition("/")[2]
            return 200, {prompt_id: self.history[prompt_id]} if prompt_id in self.history else {}
        if path == "/queue" and body is None:
            return 200, {"queue_running": [[0, key, {}] for key in self.prompts],
                         "queue_pending": []}
        if path == "/upload/image":
            return 200, {"name": "picture.png", "subfolder": "", "type": "input"}
        if path == "/features":
            return 200, {"supports_preview_metadata": True}
        if path == "/object_info":
            node = {"input": {"required": {}}, "output": [], "name": "Fake", "output_node": True}
            return 200, {"of": self.total_mib, "Fake": node}
        if path == "/system_stats":
            return 200, {"devices": [{"vram_total": self.total_mib << 20}],
                         "system": {"argv": ["fake_comfy"]}}
        if path == "/interrupt":
            self.prompts.pop((body or {}).get("prompt_id"), None)
        return (200, {}) if path in ("/queue", "/interrupt") else (404, {})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # as ComfyUI: an answer does not wait for an acknowledgement

    def do_GET(self):
        self.reply(None)

    def do_POST(self):
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_json = self.headers.get("Content-Type", "").startswith("application/json")
        self.reply(json.loads(data or b"null") if is_json or not data else data.decode("latin-1"))

    def do_socket(self, query):
        """Be a WebSocket until the client goes; what it says is not listened to."""
        asked = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept",
                         base64.b64encode(hashlib.sha1(asked.encode()).digest()).decode())
        client, sockets = query["clientId"][0], self.server.sockets
        with self.server.telling:  # who has read the answer is told of all that follows
            self.end_headers()
            sockets[client] = self.connection
        self.close_connection = True
        with contextlib.suppress(OSError):
            while self.rfile.read(1):
                pass
        if sockets.get(client) is self.connection:  # its client has no newer one
            del sockets[client]

    def reply(self, body):
        parts, server = urlsplit(self.path), self.server
        while server.silent.is_set():
            time.sleep(0.01)
        with server.lock:
            server.asked.append((self.command, parts.path, body))
        query = parse_qs(parts.query)
        parts = parts._replace(path=parts.path.removeprefix("/api"))
        if parts.path == "/ws":
            return self.do_socket(query)
        if parts.path == "/view":
            data = server.files.get(query["filename"][0])
            return self.send(404 if data is None else 200, data or b"", "image/png")
        posted = self.command == "POST" and parts.path == "/prompt"
        status, answer = server.queue(body) if posted else server.answer(parts.path, query, body)
        self.send(status, json.dumps(answer).encode())

    def send(self, status, data, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        with contextlib.suppress(ConnectionError):  # who asked waits no longer
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, *_):
        """Say nothing."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--mib", type=int, default=1000)
    options = parser.parse_args()
    FakeComfy(options.mib, options.port)
    threading.Event().wait()
