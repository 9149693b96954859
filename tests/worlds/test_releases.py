"""The released ComfyUIs from 0.3.75 to 0.33.0, as releases.json notes them."""

import pytest
from support import releases


@pytest.mark.parametrize("version", releases.versions())
def test_each_release_has_what_every_feature_needs(version):
    assert releases.lacks(version)[0] == []


def test_every_symbol_of_comfyui_in_the_contract_is_noted():
    owners = releases.noted()["owners"]
    missing = {f"{path}.{name}" for path, names in releases.members().items()
               for name in [*names, ""] if name not in owners.get(path, {})}
    assert not missing, (
        "note the releases again with tests/support/releases.py; of a name that none of them has, "
        'write [["0.3.75", null]] by hand, and its shape into tests/worlds/newer')
