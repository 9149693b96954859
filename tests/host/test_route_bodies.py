"""Request bodies that make no sense get one sentence each from a real server."""

import json
import urllib.error
import urllib.request

import pytest

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def server(serve):
    return serve()


@pytest.mark.parametrize("route", ["purge", "rescue", "reserve", "peaks"])
def test_a_body_that_is_not_encoded_as_it_says_is_refused(server, route):
    request = urllib.request.Request(
        f"{server.url}/headroom/{route}", b"not gzip at all", {"Content-Encoding": "gzip"}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    with refused.value as answer:
        error = json.loads(answer.read())["error"]
    assert refused.value.code == 400 and error.startswith("Expected a body")
