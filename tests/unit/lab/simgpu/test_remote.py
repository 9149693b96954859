"""The simulated GPU's client: what it asks of a server, and when."""

from simgpu.device import Figures
from simgpu.remote import SimServer

LOOKS = 3  # so often a test looks while ComfyUI unloads


class Freeing:
    """A ComfyUI with models, which takes a `POST /free` only when it has done the one before."""

    def __init__(self):
        self.asked, self.looks_left, self.has_models = False, 0, True

    def client(self):
        return self

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
        return 200, dict.fromkeys(Figures.__dataclass_fields__, 0)


def test_no_garbage_is_collected_while_comfyui_unloads_what_it_was_asked_to(monkeypatch):
    monkeypatch.setattr("simgpu.remote.POLL_S", 0)
    server = Freeing()
    assert SimServer(server, capacity_mib=100).unload().allocated_bytes == 0
    assert not server.asked
