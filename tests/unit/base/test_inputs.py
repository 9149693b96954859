"""What an error says of a value that came on a wire."""

import pytest

from headroom.base.inputs import came


@pytest.mark.parametrize("value, told", [
    (None, "nothing"), (3, "an int"), ({}, "a dict"), (ValueError(), "a ValueError"),
    (OSError(), "an OSError"),
])
def test_an_error_names_the_class_that_came_in_right_english(value, told):
    assert came(value) == told
    no_model = "nothing" if value is None else f"{told} without a model in it"
    assert came(value, has_model=False) == no_model
