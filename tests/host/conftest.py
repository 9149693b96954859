"""Fixtures of the tests on real servers."""

import pytest

from tools.graph import forget_everything
from tools.server import ComfyServer


@pytest.fixture
def client(cpu_server):
    """A client of a server without models, results or records of earlier tests."""
    client = cpu_server.client()
    forget_everything(client)
    return client


@pytest.fixture
def gpu(sim):
    """A simulated GPU with 2 GiB."""
    return sim(2048)


@pytest.fixture
def start_server(tmp_path, servers):
    """A function that starts a server, by default in the one folder of this test.

    All of them end with the test.
    """
    running = []

    def start(comfyui, folder=tmp_path, **options):
        running.append(ComfyServer(comfyui, folder,
                                   **{"start_with": servers.start_process, **options}))
        return running[-1].start()

    yield start
    for server in running:
        print(*server.log_text().splitlines()[-40:], sep="\n")  # pytest shows it if the test failed
        server.stop(grace_seconds=0)
