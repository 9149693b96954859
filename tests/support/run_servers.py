"""Servers that `dev.py run` meets, played; and the command on the small workflow of `saved`."""

import argparse
import json

from support.saved import OBJECT_INFO, WORKFLOW
from tools import run


class FakeServer:
    """Answers as a server without websocket does; the run ends at the third look."""

    def __init__(self, failed=False):
        self.looks, self.failed, self.queued, self.emptied = 0, failed, None, 0

    def get_json(self, path):
        assert path == "/object_info"
        return OBJECT_INFO

    def events(self):
        raise ImportError("no websocket")

    def run(self, prompt):
        [node] = prompt.values()
        assert node["class_type"] == "HeadroomPurgeVRAM" and node["inputs"]["reset_node_cache"]
        self.emptied += 1

    def queue(self, prompt, client_id=None):
        self.queued = prompt
        return "id-1"

    def history(self, prompt_id):
        self.looks += 1
        return self.wait(prompt_id) if self.looks > 2 else None

    def wait(self, prompt_id, timeout=0):
        error = ["execution_error", {"node_id": "4", "node_type": "Sample",
                                     "exception_type": "OutOfMemoryError",
                                     "exception_message": "Allocation on device"}]
        status = {"status_str": "error" if self.failed else "success",
                  "messages": [error] if self.failed else []}
        images = {"images": [{"filename": "a.png", "subfolder": "s", "type": "output"}]}
        return {"status": status, "outputs": {"4": {"text": ["4 MiB freed"]}, "5": images}}

    def get(self, path):
        node = {"node_id": "4", "class_type": "Sample", "title": "Sample it", "seconds": 1.5,
                "cached": False, "vram_before_mib": 1.0, "vram_after_mib": 2.0,
                "peak_vram_mib": 3.0}
        return 200, {"nodes": [node], "seconds": 2.0, "peak_vram_mib": 3.0}


class Growing(FakeServer):
    """Each prompt needs 1,000 MiB of VRAM and 500 of RAM more than the one before."""

    def __init__(self, **figures):
        super().__init__()
        self.prompts, self.figures = [], figures

    def queue(self, prompt, client_id=None):
        self.looks = 0
        self.prompts.append(prompt)
        return f"id-{len(self.prompts)}"

    def get(self, path):
        count = len(self.prompts)
        figures = {"peak_vram_mib": 1000.0 * count, "peak_rss_mib": 500.0 * count, **self.figures}
        return 200, {**super().get(path)[1], **figures}


def started(monkeypatch, tmp_path, server, *words):
    monkeypatch.setattr(run, "Client", lambda url: server)
    file = tmp_path / "workflow.json"
    file.write_text(json.dumps(WORKFLOW), encoding="utf-8")
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    return run.main(parser.parse_args([str(file), *words]))
