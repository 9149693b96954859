"""The results of a batch on disk."""

import asyncio
import json

import pytest

from farm import outputs


def bring(entry, folder, about, **files):
    async def download(query):
        yield files[query["filename"]]

    asyncio.run(outputs.bring(download, entry, folder, about))


def entry(*files):
    return {"outputs": {"9": {"images": list(files), "text": ["hello"]}}}


def saved(name, folder="", kind="output"):
    return {"filename": name, "subfolder": folder, "type": kind}


def test_results_are_the_saved_files_and_what_is_known_of_the_run(tmp_path):
    listed = entry(saved("a"), saved("b", "x/y"), saved("c", kind="temp"), saved("a"))
    bring(listed, tmp_path / "p", {"key": "k"}, a=b"1", b=b"22")
    assert (tmp_path / "p/a").read_bytes() == b"1"
    assert (tmp_path / "p/x/y/b").read_bytes() == b"22"
    about = json.loads((tmp_path / "p" / outputs.RESULT).read_text())
    assert [(file["name"], file["bytes"]) for file in about["files"]] == [("a", 1), ("x/y/b", 2)]
    assert about["key"] == "k" and about["outputs"] == listed["outputs"]


@pytest.mark.parametrize("name, folder", [
    ("../../etc/passwd", ""), ("a", "../.."), ("/etc/passwd", ""), ("C:\\windows\\x", ""),
    ("..", ""), ("a", "..\\..\\x"), ("result.json", ""), ("a", "/abs"),
])
def test_no_name_of_a_server_leads_out_of_the_prompts_folder(tmp_path, name, folder):
    place = outputs.place_of({"filename": name, "subfolder": folder})
    assert not place.is_absolute() and ".." not in place.parts
    assert ":" not in str(place)
    assert place.as_posix() != outputs.RESULT


def test_outputs_of_any_shape_are_read_or_left_out():
    odd = {"outputs": {"1": {"images": "none", "x": [3, None, {"type": "output"}], "y": None}}}
    assert list(outputs.files_of(odd)) == []
    assert list(outputs.files_of({})) == []


def test_a_prompt_is_finished_once_and_the_first_result_stays(tmp_path):
    for number in (1, 2):
        bring(entry(saved("a")), tmp_path / f"p{number}", {}, a=b"%d" % number)
    assert outputs.commit(tmp_path / "p1", tmp_path / "key")
    assert not outputs.commit(tmp_path / "p2", tmp_path / "key")
    assert (tmp_path / "key/a").read_bytes() == b"1"
    assert not (tmp_path / "p2").exists()
    assert outputs.finished_keys(tmp_path) == {"key"}
