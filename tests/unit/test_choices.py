"""A word that no input knows is refused, also where the host lets it pass."""

import re

import pytest

from headroom.actions.offload import offload
from headroom.actions.purge import purge
from headroom.encode.encode import split_prompts
from headroom.encode.turn import Turn


@pytest.mark.parametrize(("act", "message"), [
    (lambda: purge("everything"),
     "Purge VRAM expects unload = 'all models', 'all but keep' or 'no models', but got "
     "'everything'."),
    (lambda: offload(None, scope="other models"),
     "Offload Model expects scope = 'this model' or 'every other model', but got 'other models'."),
    (lambda: offload(None, to="ram"),
     "Offload Model expects to = 'CPU' or 'disk', but got 'ram'."),
    (lambda: split_prompts("a cat", "lines"),
     "Encode to CPU expects split = 'one prompt' or 'one prompt per line', but got 'lines'."),
    (lambda: Turn().reads("on", None, "1"),
     "Encode to CPU expects cache = 'off' or 'disk', but got 'on'."),
], ids=["unload", "scope", "to", "split", "cache"])
def test_an_unknown_word_is_refused_and_the_known_ones_are_named(act, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        act()
