"""Model files without weights: true headers, their length, and almost no disk."""

import json
import struct

import pytest

from tools.errors import DevError
from tools.sparse_files import SparseFile, Weight, read_sparse, write_sparse

CONTENT = SparseFile(
    {"a.weight": Weight("F16", (4096, 1024)), "b.alpha": Weight("F32", ()),
     "c.comfy_quant": Weight("U8", (12,))},
    {"b.alpha": struct.pack("<f", 4.0), "c.comfy_quant": b'{"format":1}'}, {"made": "by a test"},
)


def test_a_sparse_file_has_the_length_of_a_real_one_and_takes_no_disk(tmp_path):
    path = write_sparse(tmp_path / "deep" / "a.safetensors", CONTENT)
    taken = path.stat().st_blocks * 512
    assert path.stat().st_size > CONTENT.nbytes == 4096 * 1024 * 2 + 4 + 12
    assert taken < 64 * 1024
    assert [each.name for each in path.parent.iterdir()] == ["a.safetensors"]


def test_the_safetensors_library_reads_it_with_its_texts_and_numbers(tmp_path):
    from safetensors import safe_open

    path = write_sparse(tmp_path / "a.safetensors", CONTENT)
    with safe_open(path, framework="pt") as file:
        assert file.metadata() == {"made": "by a test"}
        assert file.get_tensor("a.weight").shape == (4096, 1024)
        assert float(file.get_tensor("b.alpha")) == 4.0
        assert bytes(file.get_tensor("c.comfy_quant").tolist()) == b'{"format":1}'


def test_only_header_texts_and_numbers_of_a_real_file_are_read(tmp_path):
    import torch
    from safetensors.torch import save_file

    path = tmp_path / "real.safetensors"
    save_file({"w": torch.ones(8, 8), "n.alpha": torch.tensor(2.0)}, str(path))
    found = read_sparse(path)
    assert found.weights == {"w": Weight("F32", (8, 8)), "n.alpha": Weight("F32", ())}
    assert found.values == {"n.alpha": struct.pack("<f", 2.0)}


@pytest.mark.parametrize("content", [
    b"", b"no safetensors file at all", struct.pack("<Q", 8) + b"{broken}",
    struct.pack("<Q", 16) + json.dumps({"a": {"x": 1}}).encode().ljust(16),
])
def test_a_file_that_is_no_safetensors_file_is_refused_by_name(tmp_path, content):
    path = tmp_path / "odd.safetensors"
    path.write_bytes(content)
    with pytest.raises(DevError, match="odd.safetensors is no safetensors file"):
        read_sparse(path)
