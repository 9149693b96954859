"""Which errors count as out of memory on a device, and what emptying it asks of a server."""

import pytest

from tools.client import PromptFailed
from tools.device import Device


class Server:
    """A client whose prompt fails in a node, with these lines of the traceback."""

    def __init__(self, node_type, traceback):
        self.error = {"node_type": node_type, "exception_type": "RuntimeError",
                      "exception_message": "sizes differ", "traceback": traceback}

    def post_json(self, path, body):
        return 200, {}

    def run(self, prompt, timeout):
        raise PromptFailed({"status": {"messages": [["execution_error", self.error]]}})


TILES = ["File sd.py, line 680, in decode_tiled_\n"]


def test_a_decode_that_failed_in_the_tiles_it_went_on_with_was_out_of_memory():
    device = Device(Server("VAEDecode", TILES))
    assert device.attempt_as_it_is({}, 64) == "VAEDecode: RuntimeError: sizes differ"


@pytest.mark.parametrize(("node", "lines"), [("VAEDecode", []), ("VAEDecodeTiled", TILES)])
def test_any_other_error_of_a_prompt_is_no_figure(node, lines):
    with pytest.raises(PromptFailed):
        Device(Server(node, lines)).attempt_as_it_is({}, 64)


LOOKS = 3  # so often a test looks while ComfyUI unloads


class Freeing:
    """A ComfyUI with models, which takes a `POST /free` only when it has done the one before."""

    def __init__(self):
        self.asked, self.looks_left, self.has_models = False, 0, True

    def free(self, **_):
        self.asked = True

    def get_json(self, path):
        assert path == "/simgpu/pending"
        if self.looks_left:
            self.looks_left -= 1
            self.has_models = self.looks_left > 0
        if self.asked and not self.looks_left:
            self.asked, self.looks_left = False, LOOKS if self.has_models else 0
        return {"free": self.asked}

    def post_json(self, path, body):
        assert path == "/simgpu/collect"
        assert not self.has_models, "ComfyUI still goes over its models"
        return 200, {"allocated_bytes": 0}


def test_no_garbage_is_collected_while_comfyui_unloads_what_it_was_asked_to(monkeypatch):
    monkeypatch.setattr("tools.waiting.PAUSE_SECONDS", 0)
    client = Freeing()
    assert Device(client).unload().allocated_bytes == 0
    assert not client.asked
