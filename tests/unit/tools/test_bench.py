"""The recorded figures, the tables made from them, and the READMEs that show them."""

import json
import re
from types import SimpleNamespace

import pytest

from tools import advised, bench, bench_run, bench_tables, calibration, results
from tools.bench_rows import ROWS, chinese, english, rows_of
from tools.results import ROOT

ENCODE_LOOP = {
    "growth": {"prompts": 1000, "gpu_bytes_of_growth": 0, "rss_growth_per_embedding_byte": 1.01},
    "throughput": {"cpu_throughput_ratio": 0.97},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADROOM_DEV_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(results, "commit", lambda: "abc1234")
    return tmp_path / "results"


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "comfyui_version.py").write_text('__version__ = "9.8.7"\n', encoding="utf-8")
    return tmp_path


def write(folder, date, device="simulated GPU", **benchmarks):
    folder.mkdir(exist_ok=True)
    parts = {name: {"date": date, "commit": date[-2:], "torch": "2.0", "result": found}
             for name, found in benchmarks.items()}
    data = {"device": device, "comfyui": "1.0", "benchmarks": parts}
    (folder / f"{results.slug(device)}-1.0.json").write_text(json.dumps(data), encoding="utf-8")


def test_problems_are_recorded_as_a_list_of_sentences():
    for part in results.recorded():
        problems = part.result.get("problems", [])
        assert isinstance(problems, list) and all(isinstance(one, str) for one in problems), part


def test_the_pages_show_exactly_what_the_newest_recorded_results_give():
    for name, say in bench_tables.PAGES["figures"].items():
        text = (ROOT / name).read_text(encoding="utf-8")
        figures = bench_tables.section(results.recorded(), say)
        assert text == bench_tables.with_part(text, "figures", figures), (
            f"{name} is not what the recorded results give: run `python dev.py bench --readme`."
        )


def test_claims_about_fit_are_the_recorded_figures():
    for part, table in (("calibration", calibration.table), ("advised", advised.table)):
        for name, say in bench_tables.PAGES[part].items():
            text = (ROOT / name).read_text(encoding="utf-8")
            assert text == bench_tables.with_part(text, part, table(say)), name
    found = results.newest(calibration.PART).result
    assert len(found["rows"]) == found["count"] >= 28
    for name, say in (("README.md", english), ("README.zh-CN.md", chinese)):
        text = " ".join((ROOT / name).read_text(encoding="utf-8").split())
        assert calibration.claim(found, say) in text, name


def test_a_farm_of_a_thousand_servers_is_reckoned_from_what_was_recorded():
    parts = {part.name: part.result for part in results.recorded()}
    found, door = parts["farm_proof"], parts["farm_door"]
    batch = found["throughput"]["3"]["driver_cpu_ms_a_prompt"]
    for name in ("farm.md", "farm.zh-CN.md"):
        chapter = (ROOT / "docs" / name).read_text(encoding="utf-8").rsplit("\n## ", 1)[1]
        for figure in (f"{found['head']['cpu_ms']:.1f} ms", f"{batch:.1f} ms",
                       f"{50 * round(batch, 1):,.0f}", f"{door['cpu_ms_a_prompt']:.1f} ms",
                       f"{found['head']['store_bytes_a_prompt'] / 1000:.2f} KB"):
            assert figure in chapter, (name, figure)


def test_a_benchmark_that_runs_again_replaces_its_own_part_only(folder, tree):
    first = results.record("one", {"figure": 1}, tree, folder=folder)
    results.record("two", {"figure": 2}, tree, folder=folder)
    assert results.record("one", {"figure": 3}, tree, folder=folder) == first
    data = json.loads(first.read_text(encoding="utf-8"))
    found = {name: part["result"]["figure"] for name, part in data["benchmarks"].items()}
    assert found == {"one": 3, "two": 2}
    assert [path.name for path in folder.iterdir()] == ["simulated-gpu-9.8.7.json"]
    assert (data["device"], data["comfyui"]) == ("simulated GPU", "9.8.7")


def test_a_benchmark_measured_in_pieces_keeps_the_others_with_their_commits(folder, tree):
    def merge(before, now):
        return {**before, **now}

    results.record("one", {"a": {"commit": "a1"}}, tree, folder=folder, merge=merge)
    path = results.record("one", {"b": {"commit": "b1"}}, tree, folder=folder, merge=merge)
    part = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]["one"]
    kept = {key: part[key] for key in ("commit", "result")}
    assert kept == {"commit": "a1, b1", "result": {"a": {"commit": "a1"}, "b": {"commit": "b1"}}}


def test_figures_of_real_gpus_come_first_and_a_file_of_another_form_is_none(folder):
    write(folder, "2026-01-01", one={"figure": 3}, two={"figure": 2})
    (folder / "allocator_parity_native.json").write_text('{"sequences": {}}', encoding="utf-8")
    write(folder, "2026-01-01", device="NVIDIA X", one={"figure": 4})
    found = [(part.device, part.name, part.date, part.result["figure"])
             for part in results.recorded(folder)]
    assert found == [
        ("NVIDIA X", "one", "2026-01-01", 4),
        ("simulated GPU", "one", "2026-01-01", 3),
        ("simulated GPU", "two", "2026-01-01", 2),
    ]


def test_a_table_names_device_comfyui_torch_and_commit(folder):
    write(folder, "2026-01-02", device="NVIDIA X", encode_loop=ENCODE_LOOP)
    text = bench_tables.section(results.recorded(folder), english)
    for part in ("NVIDIA X", "ComfyUI 1.0", "torch 2.0", "| 2026-01-02, 02 |"):
        assert part in text
    assert "simulated" not in text.lower() and "None of these figures" not in text


@pytest.mark.parametrize(("say", "words"), [
    (english, ("no real GPU took part", "None of these figures was measured on a real GPU")),
    (chinese, ("没有真实 GPU 参与", "都不是在真实 GPU 上测得的")),
])
def test_a_table_of_the_simulated_gpu_says_so_plainly(folder, say, words):
    write(folder, "2026-01-02", encode_loop=ENCODE_LOOP)
    text = bench_tables.section(results.recorded(folder), say)
    assert all(word in text for word in words)


@pytest.mark.parametrize(("say", "column"), [
    (english, "| Simulated GPU | Real CUDA allocator, fake driver |"),
    (chinese, "| 模拟 GPU | 真实 CUDA 分配器，假驱动 |"),
])
def test_the_fake_driver_has_a_column_beside_the_simulated_gpu(folder, say, column):
    write(folder, "2026-01-01", encode_loop=ENCODE_LOOP)
    slower = {**ENCODE_LOOP, "throughput": {"cpu_throughput_ratio": 0.5}}
    write(folder, "2026-01-02", device=results.FAKE, encode_loop=slower)
    text = bench_tables.section(results.recorded(folder), say)
    assert column in text
    assert "| 0.970 | 0.500 | `encode_loop` | 2026-01-01, 01, 2026-01-02, 02 |" in text
    assert text.count("| `encode_loop` |") == 3  # a line for each figure, not one for each device


def test_a_figure_of_one_device_leaves_the_other_column_empty(folder):
    write(folder, "2026-01-01", encode_loop=ENCODE_LOOP)
    write(folder, "2026-01-01", device=results.FAKE, fit_calibration={
        "inside": 2, "count": 3, "worst_underestimate": -0.027})
    text = bench_tables.section(results.recorded(folder), english)
    assert "| – | 2 of 3; -2.7% | `fit_calibration` |" in text
    assert "| 0.970 | – | `encode_loop` |" in text


def test_only_the_part_between_the_markers_of_a_readme_is_written():
    markers = [form.format("workflows") for form in (bench_tables.BEGIN, bench_tables.END)]
    text = f"before\n{markers[0]}\nold\n{markers[1]}\nafter\n"
    written = bench_tables.with_part(text, "workflows", "new")
    assert written == text.replace("old", "new")
    for name, unmarked in (("workflows", "no markers"), ("figures", text)):
        with pytest.raises(ValueError, match="no part between"):
            bench_tables.with_part(unmarked, name, "new")


def test_every_module_with_a_name_is_a_benchmark_and_its_helpers_are_not():
    names = bench.names()
    assert {"purge", "offload", "encode_loop", "second_run"} <= set(names)
    assert not {"on_path", "advice_trials", "recorder_run"} & set(names)


def test_every_benchmark_is_named_by_a_page_that_its_figures_are_for():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    text = "\n".join(page.read_text("utf-8") for page in pages if ".zh-CN" not in page.name)
    unnamed = [name for name in bench.names()
               if not re.search(rf"`{name}`|--only {name}\b|benchmarks/{name}\.py", text)]
    assert unnamed == []


def test_figures_that_need_a_real_gpu_are_shown_only_where_measured_on_one():
    way = {"seconds": 2.0, "plain_seconds": 1.0, "speed_of_plain": 0.5}
    names = ROWS["offload"][0]["each"]
    found = {"bytes": 8e9, "ways": dict.fromkeys(names, way),
             "seconds": {"pinned_to_device_s": 1.0, "pinned_to_cpu_s": None, "write_s": 4.0}}
    assert rows_of("offload", found, english)[-1][1] == (
        "PCIe onto the GPU 8.00 GB/s, writing a file 2.00 GB/s"
    )
    with pytest.raises(KeyError):
        rows_of("offload", {"bytes": 8e9, "ways": {"to CPU": {}}, "seconds": {}}, english)


@pytest.mark.parametrize(("device", "say", "wanted"), [
    ("simulated GPU", english, ["Flux class at its real layer sizes, batch 8, 1024x1024",
                                "stock 3,838 MiB, OOM Guard 713 MiB (0.19)"]),
    ("simulated GPU", chinese, ["Flux 类，真实的层尺寸，批量 8，1024x1024",
                                "原版 3,838 MiB，OOM Guard 713 MiB（0.19）"]),
    ("NVIDIA X", english, ["Wan class at its real layer sizes, batch 2, 832x480, 81 frames",
                           "stock > 32 GiB, OOM Guard 12 GiB"]),
    ("NVIDIA X", chinese, ["Wan 类，真实的层尺寸，批量 2，832x480，81 帧",
                           "原版 > 32 GiB，OOM Guard 12 GiB"]),
])
def test_the_classes_are_told_in_mib_with_their_ratio_and_on_a_real_gpu_in_the_gib_that_were_tried(
    folder, device, say, wanted
):
    found = {
        "simulated GPU": {"classes": {"Flux": {
            "batch": 8, "picture": [1024, 1024, 1], "guard_of_stock": 0.186,
            "smallest_mib": {"stock": 3838, "guarded": 713}}}},
        "NVIDIA X": {"gib": [8.0, 32.0], "classes": {"Wan": {
            "batch": 2, "picture": [832, 480, 81],
            "smallest_gib": {"stock": None, "guarded": 12.0}}}}}[device]
    write(folder, "2026-01-02", device=device, capacity_classes=found)
    text = bench_tables.section(results.recorded(folder), say)
    assert all(words in text for words in wanted)


class StubbornDevice:
    """A server that takes POST /free and then frees nothing."""

    def __init__(self):
        self.client = self
        self.asked = 0

    def free(self, **_):
        self.asked += 1

    def collect(self):
        return SimpleNamespace(allocated_bytes=100)

    def free_is_pending(self):
        return False


def test_a_free_without_effect_ends_the_purge_benchmark_instead_of_being_measured(monkeypatch):
    purge = bench_run.load("purge")
    monkeypatch.setattr(purge.time, "sleep", lambda _: None)
    device = StubbornDevice()
    with pytest.raises(RuntimeError, match="POST /free had no effect"):
        purge.PurgeBench(device, None).free_models()
    assert device.asked == purge.TRIES


def test_no_two_lines_of_a_benchmark_say_the_same_was_measured():
    parts = list(results.recorded())
    for say in (english, chinese):
        for part in parts:
            lines = [what for what, _ in rows_of(part.name, part.result, say)]
            assert len(set(lines)) == len(lines), f"{part.name} of {part.device}"
