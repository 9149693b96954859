"""Which errors a benchmark counts as out of memory on a device."""

import pytest

from tools.bench_device import Device
from tools.client import PromptFailed


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
