"""Request bodies that make no sense get one sentence each from a real server."""

import pytest

pytestmark = pytest.mark.host


@pytest.mark.parametrize("route", ["purge", "rescue", "reserve", "peaks"])
def test_a_body_that_is_not_encoded_as_it_says_is_refused(client, route):
    status, answer = client.post_json(
        f"/headroom/{route}", b"not gzip at all", {"Content-Encoding": "gzip"})
    assert status == 400 and answer["error"].startswith("Expected a body")
