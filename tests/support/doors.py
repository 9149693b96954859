"""A door for tests: on a port of its own, with servers that compute nothing behind it."""

import asyncio
import contextlib
import json
import socket
import threading

import psutil
import uvicorn
import websocket

import fake_comfy
from farm.app import application
from farm.door import Door
from farm.errors import known_errors
from farm.servers import ServerSpec
from farm.store import Store
from farm.worker import Patience, Worker
from tools.client import Client
from tools.waiting import LONGEST_SECONDS, wait_until

ID = "8f0c0c4e-6d5f-4e5c-9d1a-3b1f4e6d2c11"
ANSWER_SECONDS = 60  # of a door on such a machine
PATIENCE = Patience(start=60, silent=30, prompt=120)
IMPATIENT = Patience(start=60, silent=1, prompt=120)  # where a server falls silent


def processes(are_meant, among=None):
    found = []
    for one in psutil.process_iter() if among is None else among:
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            if are_meant(one):
                found.append(one)
    return found


def servers_in(folder, mib=""):
    """The processes of servers that a farm started in this folder: another test has others."""
    return processes(lambda one: one.cmdline()[1:2] == [fake_comfy.__file__]
                     and one.cmdline()[-1].endswith(str(mib)) and one.cwd() == str(folder))


def prompt(kind="Fake", **inputs):
    return {"1": {"class_type": kind, "inputs": inputs}}


def hold(door, comfy):
    """Keep a server busy; returns the prompt that does."""
    busy = door.queue(prompt(seconds=100, seed=99))
    wait_until(lambda: comfy.prompts)
    return busy


class OpenDoor:
    """A door in a thread, as `farm serve` has it in a process."""

    def __init__(self, folder, urls, token="", most_bytes=1 << 20, after_oom="rescue",
                 patience=PATIENCE, work=Worker, sleepers=(), **options):
        """`urls` may be a dict of names; `work` makes what runs a server.

        Those of `sleepers` start when they are wanted.
        """
        self.said = []
        names = urls if isinstance(urls, dict) else {url: url for url in urls}
        specs = [ServerSpec(name, url) for name, url in names.items()]

        works = {spec.name: work(spec, patience, known_errors(), folder) for spec in specs}
        door = Door(Store(folder), works, self.said.append, after_oom, sleepers=sleepers, **options)
        bound = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        self.client = Client(self.url, ANSWER_SECONDS)
        self._server = uvicorn.Server(uvicorn.Config(
            application(door, token, most_bytes), log_level="error", lifespan="on",
            timeout_graceful_shutdown=1))
        self._thread = threading.Thread(target=asyncio.run, args=(self._server.serve([bound]),))
        self._thread.start()
        wait_until(lambda: self._server.started)

    def close(self):
        self._server.should_exit = True
        self._thread.join()

    def states(self):
        return [one["state"] for one in self.get("/farm")["servers"]]

    def get(self, path):
        return self.client.get(path)[1]

    def post(self, path, body=None, headers=None):
        return self.client.post_json(path, body, headers)

    def queue(self, graph, **body):
        status, answer = self.post("/prompt", {"prompt": graph, **body})
        assert status == 200, answer
        return answer["prompt_id"]

    def entry(self, prompt_id):
        """The history entry of a prompt, waited for."""
        return self.client.wait(prompt_id, LONGEST_SECONDS)

    @contextlib.contextmanager
    def listening(self, client_id):
        """A WebSocket: yields a function that reads until an event, and returns all it read."""
        address = self.url.replace("http", "ws") + f"/ws?clientId={client_id}"
        heard = websocket.create_connection(address, timeout=ANSWER_SECONDS)

        def until(kind, node=...):
            found = []
            while True:
                message = heard.recv()
                found.append(json.loads(message) if isinstance(message, str) else message)
                last = found[-1]
                if isinstance(last, dict) and last["type"] == kind and (
                        node is ... or last["data"].get("node") == node):
                    return found

        until.socket = heard
        try:
            yield until
        finally:
            heard.close()
