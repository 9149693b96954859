"""A bug report: what helps to find the bug, and nothing that is private."""

import json
import sys
from types import ModuleType

from headroom.api.bug_report import bug_report

SECRET, PATH = "my grandmother's house", "/home/ann/private/lora.safetensors"
WINDOWS = r"D:\\work\\client\\secret.ckpt"
RUN = {
    "prompt_id": SECRET, "status": "error", "device": "cuda:0", "seconds": 1.5,
    "nodes": [
        {"node_id": "4", "display_node_id": SECRET, "title": SECRET, "class_type": "KSampler",
         "status": "failed", "peak_vram_mib": 7000.0, "vram_after_mib": None},
        {"node_id": PATH, "title": PATH, "class_type": "VAEDecode", "peak_vram_mib": 1.0},
    ],
    "oom": [{"node_id": "headroom-guard-4-0", "attempt": 1, "recovered": True, "freed_mib": 12.5,
             "error": f"Tried to allocate 40.00 MiB in {PATH}. GPU has 8.00 GiB", "action": PATH,
             "said": {"template": "{name} left", "values": {
                 "name": PATH, "mib": 12.5, "why": {"template": "{x}, {y}", "values": [SECRET]}}}}],
    "actions": [{"node_id": "7", "text": WINDOWS, "said": SECRET}],
    "failure": {"text": SECRET, "can_rescue": True, "class_type": "KSampler"},
    "rescued_as": "0f8fad5b-d9cb-469f-a165-70867728950e",
}
MEMORY = {"devices": [{"device": "cuda:0", "name": "NVIDIA GeForce RTX 4070", "free_mib": 1.0}],
          "models": [{"class": "Flux", "kind": "MODEL", "file": PATH, "loaded_mib": 5.0}]}
ENVIRONMENT = {"HEADROOM_GUARD": "all", "HEADROOM_EMBEDDING_FOLDER": PATH, "HOME": PATH,
               "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
WORDS = [PATH, "--lowvram", "--cache-lru", "10", "--listen", "203.0.113.7",
         "--base-directory", PATH, f"--temp={WINDOWS}"]


def made():
    return bug_report(MEMORY, [RUN], ENVIRONMENT, WORDS)


def test_no_text_no_title_no_name_of_a_file_and_no_path_is_in_it():
    text = json.dumps(made())
    for private in ("grandmother", "ann", "lora", "secret", "client", ".safetensors", "/home"):
        assert private not in text, private


def test_figures_classes_ids_that_are_numbers_and_our_own_templates_are_in_it():
    report = made()
    [run] = report["runs"]
    assert run["nodes"][0] == {
        "node_id": "4", "class_type": "KSampler", "status": "failed", "peak_vram_mib": 7000.0,
        "vram_after_mib": None}
    assert run["oom"] == [{
        "node_id": "headroom-guard-4-0", "attempt": 1, "recovered": True, "freed_mib": 12.5,
        "error": ["40.00 MiB", "8.00 GiB"],
        "said": {"template": "{name} left", "values": {
            "mib": 12.5, "why": {"template": "{x}, {y}", "values": []}}}}]
    assert run["rescued_as"] == RUN["rescued_as"]
    assert report["memory"]["devices"] == MEMORY["devices"]
    assert report["memory"]["models"] == [{"class": "Flux", "kind": "MODEL", "loaded_mib": 5.0}]


def test_versions_settings_and_flags_are_in_it_and_of_folders_only_that_they_are_set(monkeypatch):
    module = ModuleType("comfyui_version")
    module.__version__ = "0.33.0"
    monkeypatch.setitem(sys.modules, "comfyui_version", module)
    report = made()
    assert report["versions"]["comfyui"] == "0.33.0"
    assert report["versions"]["headroom"].count(".") == 2 and report["versions"]["torch"]
    assert report["settings"] == {
        "HEADROOM_EMBEDDING_FOLDER": "(set)", "HEADROOM_GUARD": "all",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    assert report["arguments"] == [
        "--lowvram", "--cache-lru", "10", "--listen", "--base-directory", "--temp"]
