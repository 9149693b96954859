"""Fixtures of the tests on real servers."""

import pytest

from tools.graph import forget_everything


@pytest.fixture
def client(cpu_server):
    """A client of a server without models, results or records of earlier tests."""
    client = cpu_server.client()
    forget_everything(client)
    return client
