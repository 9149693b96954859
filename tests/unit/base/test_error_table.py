"""The table of errors: its texts find each row, in order, and its advice is possible here."""

import json
import re
from typing import get_args

import pytest

from headroom.base.error_table import ROWS, TABLE, Family, row_of
from headroom.guard.errors import where_of_text
from tools import error_pages

TABLE_JSON = json.loads(TABLE.read_text(encoding="utf-8"))
TEXTS = [(row["id"], text) for row in TABLE_JSON["errors"] for text in row["texts"]]


@pytest.mark.parametrize("row_id, text", TEXTS)
def test_each_example_belongs_to_its_own_row_and_to_none_before_it(row_id, text):
    row = row_of("RuntimeError", f"aimdo: something: {text} and more")
    assert row is not None and row.id == row_id


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_is_of_a_known_family_and_only_memory_is_worth_a_rerun(row):
    assert row.family in get_args(Family)
    assert row.do and row.what.endswith(".") and row.why.endswith(".")
    assert not row.retry or row.family in ("device memory", "RAM", "page file")


@pytest.mark.parametrize("kind, text, row_id, where", [
    ("builtins.OSError", "页面文件太小，无法完成操作。 (os error 1455)", "page_file", "RAM"),
    ("safetensors_rust.SafetensorError", "Error: (os error 1455)", "page_file", "RAM"),
    ("RuntimeError", "CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
     "library", "device"),
    ("RuntimeError", "CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasSgemm`", "cublas", None),
    ("RuntimeError", "MPS backend out of memory (MPS allocated: 39.50 GiB, other allocations: "
     "141.24 GiB, max allowed: 182.78 GiB). Tried to allocate 6.15 GiB", "mps_other", "device"),
    ("RuntimeError", "MPS backend out of memory (MPS allocated: 17.85 GB, other allocations: "
     "2.41 MiB)", "device", "device"),
    ("IndexError", "pop from empty list", "empty_list", None),
    ("AttributeError", "'dict' object has no attribute 'get_model_object'", "wrong_wire", None),
    ("TypeError", "'ModelPatcherDynamic' object is not iterable", "wrong_wire", None),
    ("AttributeError", "'ControlNet' object has no attribute 'model'", "wrong_wire", None),
    ("NotImplementedError", "Cannot copy out of meta tensor; no data!", "meta", None),
    ("MemoryError", "VBAR OOM", "address_space", None),
    ("MyPackError", "Sorry. It seems you ran out of memory on your GPU.", "device", "device"),
    ("ValueError", "CUDA out of memory", "device", None),  # explained, and no rerun for it
    ("RuntimeError", "HostBuffer.read_file_slice failed", "pinned_read", None),
    ("RuntimeError", "hostbuf_file_reader_read failed: -1", "pinned_read", None),
    ("RuntimeError", "VRAM Allocation failed (non OOM)", "pager_fault", None),
    ("RuntimeError", "Fault failed: 2", "pager_fault", None),
    ("RuntimeError", "CUDA driver error: device not ready", "pager_fault", None),
    ("RuntimeError", "aimdo memory compile error", "pager_compile", None),
    ("RuntimeError", "aimdo device 1 is not initialized", "pager_device", None),
    ("OSError", "[WinError 1455] The paging file is too small for this operation to complete",
     "page_file", "RAM"),
    ("RuntimeError", "cannot allocate array memory", "ram", "RAM"),
    ("RuntimeError", "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed "
     "in a non-contiguous input.", "cudnn", None),
    ("RuntimeError", "GET was unable to find an engine to execute this computation",
     "cudnn_engine", None),
])
def test_an_error_is_known_by_class_and_text(kind, text, row_id, where):
    row = row_of(kind, text)
    assert row is not None and row.id == row_id
    assert where_of_text(kind, text) == where


def test_an_error_that_nobody_knows_has_no_row():
    assert row_of("ValueError", "mat1 and mat2 shapes cannot be multiplied") is None
    for owner, name in (("str", "decode"), ("NoneType", "tokenize"), ("VAE", "latent_dim")):
        assert row_of("AttributeError", f"{owner!r} object has no attribute {name!r}") is None


def test_a_flag_is_named_only_where_this_comfyui_has_it():
    row = row_of("RuntimeError", "CUDA out of memory")
    both = {"--vram-headroom", "--reserve-vram"}
    flags = [[phrase.values["flag"] for phrase in row.advice(has.__contains__) if phrase.values]
             for has in (both, {"--reserve-vram"}, set())]
    assert flags == [["--vram-headroom"], ["--reserve-vram"], []]


@pytest.mark.parametrize("path, text", error_pages.pages().items(), ids=lambda one: str(one)[-15:])
def test_the_pages_are_made_of_the_table_as_it_is(path, text):
    assert path.read_text(encoding="utf-8") == text, "run: python -m tools.error_pages"


def test_every_sentence_of_the_table_is_there_in_chinese():
    chinese = next(text for path, text in error_pages.pages().items() if "zh" in path.name)
    rows = chinese.splitlines()[-len(ROWS):]
    assert all(re.search(r"[一-鿿]", cell) for row in rows for cell in row.split(" | ")[1:])
