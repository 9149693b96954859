"""The farm's state on disk, and its results."""

import json

import pytest

from farm import cli, outputs
from farm.keys import prompt_id_of
from farm.ledger import FILE, Ledger, entry_of, line_of
from farm.prompts import asked_for
from farm.words import Facts, FarmError, Order, Outcome

HAD = Facts(1000.0, 1000.0, True)


def asked(seed=1):
    return asked_for("p", {"1": {"class_type": "Fake", "inputs": {"seed": seed}}})


def order(one, server="a"):
    return Order(one, prompt_id_of(one.key, server, 0))


def test_what_is_finished_is_known_after_a_restart(tmp_path):
    one, two = asked(1), asked(2)
    with Ledger(tmp_path) as ledger:
        ledger.begins(order(one), "a")
        ledger.ends(one, "a", Outcome("done", needed_mib=500.0), HAD)
        ledger.begins(order(two), "a")
    with Ledger(tmp_path) as again:
        assert again.finished == {one.key}
        assert again.open == {two.key: "a"}
        assert again.has_begun(two.key, "a") and not again.has_begun(one.key, "a")
        assert again.needs.of(one.kind).enough_mib == 500.0
        assert again.ended(one.key, "a") == 1


def test_a_torn_last_line_is_a_miss_wherever_it_is_torn(tmp_path):
    one, two = asked(1), asked(2)
    with Ledger(tmp_path) as ledger:
        ledger.ends(one, "a", Outcome("done"), HAD)
        whole = (tmp_path / FILE).read_bytes()
        ledger.ends(two, "a", Outcome("done"), HAD)
    full = (tmp_path / FILE).read_bytes()
    for cut in range(len(whole) + 1, len(full)):
        (tmp_path / FILE).write_bytes(full[:cut])
        with Ledger(tmp_path) as ledger:
            # Only the newline of a whole line may be missing.
            expected = {one.key, two.key} if cut == len(full) - 1 else {one.key}
            assert ledger.finished == expected
            ledger.ends(two, "b", Outcome("done"), HAD)
        with Ledger(tmp_path) as ledger:  # what came after the torn line is whole
            assert ledger.finished == {one.key, two.key}


def test_a_line_damaged_in_the_middle_is_a_miss_and_the_others_count(tmp_path):
    with Ledger(tmp_path) as ledger:
        for seed in (1, 2, 3):
            ledger.ends(asked(seed), "a", Outcome("done"), HAD)
    lines = (tmp_path / FILE).read_bytes().splitlines()
    lines[1] = lines[1].replace(b'"done"', b'"DONE"')
    (tmp_path / FILE).write_bytes(b"\n".join(lines) + b"\n\xff\xfe\x00\n")
    with Ledger(tmp_path) as ledger:
        assert ledger.finished == {asked(1).key, asked(3).key}
        assert ledger.damaged_lines == 2


def test_a_line_comes_back_as_it_was():
    entry = {"what": "done", "name": "Bücher\n\u2028猫", "text": "\ud800"}
    line = line_of(entry)
    assert line.count(b"\n") == 1
    assert entry_of(line.rstrip(b"\n")) == entry
    assert entry_of(b"") is None and entry_of(b"{}") is None


def test_a_second_farm_on_the_same_results_is_told_so(tmp_path):
    with Ledger(tmp_path), pytest.raises(FarmError, match="Another farm writes to"):
        Ledger(tmp_path)
    Ledger(tmp_path).__exit__(None, None, None)


def test_a_ledger_that_cannot_be_read_is_one_sentence(tmp_path):
    (tmp_path / FILE).mkdir()
    with pytest.raises(FarmError, match="cannot be written: Is a directory"):
        Ledger(tmp_path)
    (tmp_path / FILE).rmdir()
    Ledger(tmp_path).__exit__(None, None, None)  # the lock was given back


def test_a_line_for_which_the_disk_had_no_room_is_no_line(tmp_path):
    class Full:
        def __init__(self, file):
            self.file = file

        def write(self, line):
            return self.file.write(line[:20])

        def close(self):
            self.file.close()

    with Ledger(tmp_path) as ledger:
        ledger.begins(order(asked(1)), "a")
        ledger._file = Full(ledger._file)
        with pytest.raises(OSError, match="No space left on device"):
            ledger.begins(order(asked(2)), "a")
        assert not ledger.has_begun(asked(2).key, "a")
    with Ledger(tmp_path) as again:
        again.begins(order(asked(3)), "a")
    with Ledger(tmp_path) as again:
        assert again.damaged_lines == 1
        assert set(again.open) == {asked(1).key, asked(3).key}


def test_what_the_disk_refuses_is_one_sentence_and_a_code(tmp_path, monkeypatch, capsys):
    def full(args):
        raise OSError(28, "No space left on device", str(args.results / FILE))

    monkeypatch.setattr(cli, "run", full)
    assert cli.main(["run", "p.json", "--servers", "http://a", "--results", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "No space left on device" in said and FILE in said and said.count("\n") == 1


def test_an_error_of_the_network_is_not_told_as_one_of_the_results_folder(
    tmp_path, monkeypatch, capsys
):
    def refused(args):
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(cli, "run", refused)
    assert cli.main(["run", "p.json", "--servers", "http://a", "--results", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "Connection refused" in said and str(tmp_path) not in said and said.count("\n") == 1


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FarmError, match="cannot be written"):
        Ledger(tmp_path / "file")


def test_a_lost_attempt_stays_open_under_the_same_id_and_is_abandoned_once_it_moved(tmp_path):
    one = asked(1)
    with Ledger(tmp_path) as ledger:
        ledger.begins(order(one, "a"), "a")
        ledger.ends(one, "a", Outcome("lost"), HAD)
        assert ledger.has_begun(one.key, "a") and ledger.ended(one.key, "a") == 0
        assert ledger.abandoned("a") == []  # it may still come back there
        ledger.begins(order(one, "b"), "b")
        ledger.ends(one, "b", Outcome("done"), HAD)
        assert ledger.abandoned("b") == []
        assert ledger.abandoned("a") == [prompt_id_of(one.key, "a", 0)]
        assert ledger.abandoned("a") == []  # told once


# ---------------------------------------------------- results


class Files:
    def __init__(self, **files):
        self.files = files

    def download(self, query):
        yield self.files[query["filename"]]


def entry(*files):
    return {"outputs": {"9": {"images": list(files), "text": ["hello"]}}}


def saved(name, folder="", kind="output"):
    return {"filename": name, "subfolder": folder, "type": kind}


def test_results_are_the_saved_files_and_what_is_known_of_the_run(tmp_path):
    listed = entry(saved("a"), saved("b", "x/y"), saved("c", kind="temp"), saved("a"))
    outputs.bring(Files(a=b"1", b=b"22"), listed, tmp_path / "p", {"key": "k"})
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
        outputs.bring(Files(a=b"%d" % number), entry(saved("a")), tmp_path / f"p{number}", {})
    assert outputs.commit(tmp_path / "p1", tmp_path / "key")
    assert not outputs.commit(tmp_path / "p2", tmp_path / "key")
    assert (tmp_path / "key/a").read_bytes() == b"1"
    assert not (tmp_path / "p2").exists()
    assert outputs.finished_keys(tmp_path) == {"key"}


def test_results_travel_where_the_driver_does_not_see_the_folder(tmp_path):
    outputs.bring(Files(a=b"1", b=b"22"), entry(saved("a"), saved("b", "x")), tmp_path / "p", {})
    payload = outputs.taken(tmp_path / "p")
    assert not (tmp_path / "p").exists()
    outputs.unpack(payload, tmp_path / "q")
    assert (tmp_path / "q/x/b").read_bytes() == b"22"
    assert (tmp_path / "q" / outputs.RESULT).exists()
