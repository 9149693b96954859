"""`dev.py compare`: two ways of running a workflow in one table."""

import json
import stat

import pytest

from tools import compare
from tools.errors import DevError

PROMPT = {"1": {"class_type": "KSampler", "inputs": {}}}


def answer(verdict, log, copied=10.0):
    text = {"resident": "resident", "streams": "streams 900 MiB a step"}[verdict]
    return {"workflow": "w.json", "trials": [{
        "card_gib": 8.0, "peak_mib": 2160.0, "log": log,
        "verdict": {"word": verdict, "mib": 900.0, "text": text},
        "nodes": [{"copied_mib": copied, "refused": 2}]}]}


@pytest.fixture
def tried(tmp_path, capsys):
    """A function that runs the command with a Python that only gives these answers by flag."""

    def run(answers, *words):
        (tmp_path / "w.json").write_text(json.dumps(PROMPT))
        python, lines = tmp_path / "python", ["#!/bin/sh"]
        for flag, told in answers.items():
            test = f'case "$*" in *"--flags={flag}"*) ' if flag else "case x in x) "
            lines.append(f"{test} cat <<'END'\n{json.dumps(told)}\nEND\nexit ;; esac")
        python.write_text("\n".join([*lines, "exit 1"]))
        python.chmod(stat.S_IRWXU)
        parser = compare.argparse.ArgumentParser()
        compare.add_arguments(parser)
        args = parser.parse_args([str(tmp_path / "w.json"), "--python", str(python),
                                  "--cards", "8", *words])
        assert compare.main(args) == 0
        return capsys.readouterr().out

    return run


def test_both_sides_stand_in_one_table_with_what_only_one_of_them_says(tried):
    same = "Requested to load SD1ClipModel"
    shown = tried({"--lowvram": answer("streams", [same, "loaded partially; 419 MB usable"], 3000),
                   "": answer("resident", [same, "loaded completely; 6572 MB usable"])},
                  "--a", "", "--b", ",--lowvram")
    header = next(line for line in shown.splitlines() if line.startswith("8 GiB"))
    assert header.split()[2:] == ["no", "flags", "--lowvram"]
    [verdicts] = [line for line in shown.splitlines() if "verdict" in line]
    assert verdicts.split() == ["verdict", "resident", *"streams 900 MiB a step".split()]
    figures = [line.split()[-2:] for line in shown.splitlines()]
    assert ["10", "3,000"] in figures and ["0", "900"] in figures and ["2", "2"] in figures
    assert "  - loaded completely; 6572 MB usable" in shown
    assert "  + loaded partially; 419 MB usable" in shown
    assert same not in shown


@pytest.mark.parametrize("log, said", [
    (["loaded completely; 6572 MB usable"], False),
    (["Model Flux prepared for dynamic VRAM loading. 11738MB Staged."], True)])
def test_it_says_that_equal_runs_differ_where_comfyui_streams_by_pages(tried, log, said):
    shown = tried({"--lowvram": answer("resident", log), "": answer("resident", log)},
                  "--a", "", "--b", ",--lowvram")
    assert ("two equal runs differ" in shown) is said


def test_several_flags_are_also_tried_one_by_one(tried):
    told = answer("resident", [])
    shown = tried({"": told}, "--a", "", "--b", ",--lowvram,--reserve-vram 2")
    header = next(line for line in shown.splitlines() if line.startswith("8 GiB"))
    assert header.split("  ", 1)[1].split() == [
        "no", "flags", "--lowvram", "--reserve-vram", "2", "--lowvram", "--reserve-vram", "2"]


def comfyui(folder):
    """A folder that looks like a ComfyUI."""
    (folder / "comfy").mkdir(parents=True)
    for name in ("main.py", "nodes.py", "comfy/cli_args.py"):
        (folder / name).touch()
    return str(folder)


def test_two_folders_of_one_name_are_told_apart(tried, tmp_path):
    old, new = comfyui(tmp_path / "old" / "ComfyUI"), comfyui(tmp_path / "new" / "ComfyUI")
    shown = tried({"": answer("resident", [])}, "--a", old, "--b", new)
    assert "old/ComfyUI" in shown and "new/ComfyUI" in shown


def test_a_wrong_folder_is_refused_before_the_other_side_runs(tried, tmp_path, capsys):
    with pytest.raises(DevError, match="is not a ComfyUI folder"):
        tried({"": answer("resident", [])}, "--a", "", "--b", str(tmp_path))
    assert "fit" not in capsys.readouterr().err


def test_a_side_without_a_verdict_is_named_with_its_reason(tried, tmp_path):
    with pytest.raises(DevError, match="ComfyUI --wrong gave no verdict: no word"):
        tried({"--lowvram": answer("resident", [])}, "--a", ",--wrong", "--b", ",--lowvram")


@pytest.mark.parametrize("words", [[], ["--a", ""], ["--servers", "http://a", "http://a"],
                                   ["--servers", "http://a", "http://b", "--a", "", "--b", ""]])
def test_two_different_sides_are_needed_to_compare(tried, words):
    with pytest.raises(DevError, match="Give two sides to compare"):
        tried({"": answer("resident", [])}, *words)


def test_a_folder_that_is_written_in_two_ways_is_one_side(tried, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    comfyui(tmp_path / "ComfyUI")
    shown = tried({"": answer("resident", [])}, "--a", "ComfyUI", "--b", "./ComfyUI/")
    [verdicts] = [line for line in shown.splitlines() if "verdict" in line]
    assert verdicts.split() == ["verdict", "resident"]


def test_a_word_that_is_no_flag_is_refused():
    with pytest.raises(compare.argparse.ArgumentTypeError, match="begin with --, not 'lowvram'"):
        compare.side("ComfyUI,lowvram")


def test_a_comma_without_a_flag_is_the_clones_own_comfyui_as_it_is():
    assert compare.side(",") == compare.side("") == compare.Side("", ())


def test_two_servers_are_compared_by_their_records():
    def run(seconds, **more):
        return {"status": "success", "seconds": seconds, "peak_vram_mib": 100.0, "oom": [],
                "peak_rss_mib": None, "comfyui": "0.3.75", "argv": ["--lowvram"], "error": None,
                "ram_held": {"models": [{"pinned_mib": 3.0}, {"pinned_mib": seconds}]},
                "nodes": [{"node_id": "3", "title": "", "class_type": "KSampler",
                           "seconds": seconds, "peak_vram_mib": 90.0}], **more}

    text = compare.of_servers({"http://a": run(1.0), "http://b": run(
        2.5, status="error", error="Node 3 (KSampler) failed")})
    assert "http://a: ComfyUI 0.3.75 --lowvram" in text
    assert "http://b failed: Node 3 (KSampler) failed" in text
    [row] = [line for line in text.splitlines() if "KSampler: seconds" in line]
    assert row.split()[-2:] == ["1.0", "2.5"]
    [row] = [line for line in text.splitlines() if "pinned RAM" in line]
    assert row.split()[-2:] == ["4.0", "5.5"]
    text = compare.of_servers({"http://a": run(1.0), "http://b": run(1.0, ram_held=None)})
    [row] = [line for line in text.splitlines() if "pinned RAM" in line]
    assert row.split()[-2:] == ["4.0", compare.UNKNOWN]
