"""Answers of a server that make the panel draw everything that it can draw."""

from __future__ import annotations

from typing import Any

RUN_ID, SECOND_ID = "p1", "p2"


def node(node_id: str, start: float | None, end: float, **fields: Any) -> dict[str, Any]:
    ran = start is not None
    return {
        "node_id": node_id, "display_node_id": node_id, "parent_node_id": None,
        "class_type": f"Class{node_id}", "title": f"Node {node_id}",
        "status": "done" if ran else "cached", "cached": not ran,
        "start_seconds": start, "seconds": end - start if start is not None else 0,
        "spans": [[start, end]] if ran else [], "growth_mib": 200.0 if ran else None,
        "vram_before_mib": 100.0 if ran else None, "vram_after_mib": 200.0 if ran else None,
        "peak_vram_mib": 300.0 if ran else None, "peak_vram_at_most_mib": None,
        "rss_before_mib": 10.0 if ran else None, "rss_after_mib": 20.0 if ran else None,
        **fields,
    }


def advice(kind: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": kind, "kind": kind, "text": f"Advice of the kind {kind}.", "values": {},
        "saves_mib": [500.0, 800.0], "measured_on": {}, "node_ids": ["1"], "cost": "seconds",
        "changes_picture": False, "edit": {"steps": []}, "measured_mib": {"mib": 400.0}, **fields,
    }


NODES = [
    node("1", 0, 2), node("2", 1, 3), node("3", 3, 9, status="failed"),
    node("4", 9, 9.5, status="stopped"), node("5", None, 0), node("6", 9.5, 10, title="Node 1"),
]
FAILURE = {"can_rescue": True, "text": "Node 3 ran out of GPU memory.", "said": None}
RUN: dict[str, Any] = {
    "prompt_id": RUN_ID, "status": "error", "device": "cuda:0", "started_at": 1763722100,
    "seconds": 10.0, "peak_vram_mib": 300.0, "peak_vram_at_most_mib": 310.0, "peak_rss_mib": 20.0,
    "vram_total_mib": 1024.0, "vram_source": "driver", "nodes": NODES, "nodes_left_out": 2,
    "oom": [
        {"node_id": "3", "class_type": "Class3", "attempt": 1, "action": "unloaded", "said": None,
         "freed_mib": 5.0, "error": "Allocation failed", "recovered": True, "at_seconds": 4.0},
        {"node_id": "3", "class_type": "Class3", "attempt": 2, "action": "nothing", "said": None,
         "freed_mib": 0.0, "error": "Allocation failed", "recovered": False, "at_seconds": 8.0},
    ],
    "gave_up": [{"node_id": "3", "class_type": "Class3", "text": "No more to free.", "said": None}],
    "actions": [{"node_id": "1", "action": "offload", "freed_mib": 7.0, "text": "7 MiB moved",
                 "said": None, "at_seconds": 1.0}],
    "samples": {"seconds": [0.0, 2.0, 5.0, 10.0], "vram_mib": [100.0, 250.0, None, 300.0],
                "rss_mib": [10.0, 12.0, 20.0, 20.0]},
    "slower": [{"node_id": "3", "text": "Node 3 #3 took 31.0 s, and 10.0 s in an earlier run: "
                                        "900.0 MiB of swap were in use, and 0.0 MiB in the "
                                        "earlier run", "said": {
        "template": "{node} took {seconds} s, and {before} s in an earlier run: {why}",
        "values": {"node": "Node 3 #3", "seconds": "31.0", "before": "10.0", "why": {
            "template": "{swapped_mib} of swap were in use, and {before_mib} in the earlier run",
            "values": {"swapped_mib": 900.0, "before_mib": 0.0}}}}}],
    "spilled": [{"node_id": "3", "text": "spilled 1,240.0 MiB while Node 3 #3 ran", "said": {
        "template": "spilled {spilled_mib} while {node} ran",
        "values": {"spilled_mib": 1240.0, "node": "Node 3 #3"}}}],
    "ram_low": {"least_left_mib": 120.0, "total_mib": 16000.0},
    "ram_held": {"models": [{"id": "m1", "file": "one.safetensors", "class": "BaseModel",
                             "mib": 300.0, "mapped_mib": 0.0, "pinned_mib": 0.0}],
                 "cached": [], "packs": [], "other_tensors_mib": 0.0, "files_mib": 0.0,
                 "python_heap_mib": 210.0, "rest_mib": 90.0, "swap_used_mib": None},
    "failure": FAILURE, "rescued_from": None, "rescued_as": None,
    "fits": {"kind": "measured", "smallest_mib": [290.0, 320.0], "at_least": False,
             "cards_gib": [4]},
}
SECOND = {**RUN, "prompt_id": SECOND_ID, "started_at": 1763722000, "rescued_from": RUN_ID}
MEMORY: dict[str, Any] = {
    "busy": False, "reserve_mib": 512,
    "stuck": {"text": "no progress for 612 s in KSampler #3", "said": {
        "template": "no progress for {seconds} s in {node}",
        "values": {"seconds": 612, "node": "KSampler #3"}}},
    "foreign": [{"pack": "comfyui_sam3", "classes": ["Sam3"], "mib": 1022.0}],
    "limit": {"limit": "3 GiB", "set_by": "HTTP", "devices": [], "not_limited": [
        {"text": "dynamic VRAM cannot be limited while it runs", "said": None}]},
    "devices": [{"device": "cuda:0", "name": "A GPU", "total_mib": 4096.0, "used_mib": 1000.0,
                 "models_mib": 400.0, "other_torch_mib": 300.0, "allocated_mib": 500.0,
                 "reserved_mib": 700.0, "other_processes_mib": 300.0, "free_mib": 3096.0,
                 "left_mib": 2072.0, "limit_mib": 3072.0}],
    "ram": {"rss_mib": 900.0, "total_mib": 16000.0, "available_mib": 9000.0},
    "peaks": {"since": 1763722000, "devices": {"cuda:0": 1500.0}, "rss_mib": 1000.0},
    "models": [
        {"id": "m1", "file": "one.safetensors", "class": "BaseModel", "kind": "diffusion model",
         "loaded_mib": 300.0, "total_mib": 400.0},
        {"id": "m2", "file": None, "class": "AutoencoderKL", "kind": "VAE", "loaded_mib": 0.0,
         "total_mib": 100.0},
    ],
}
REPORT = {"headline": "5.0 MiB of VRAM freed", "text": "5.0 MiB of VRAM freed", "steps": [],
          "said": {"headline": {"template": "{freed_mib} of VRAM freed",
                                "values": {"freed_mib": 5.0}}, "steps": []}, "figures": []}
ADVICE = [advice("encode_to_cpu"), advice("purge_between", changes_picture=True),
          advice("oom_guard"), advice("cast_bf16"), advice("other_process", edit=None),
          advice("error", edit=None, text="ComfyUI could not read pinned memory.")]


def answers() -> dict[str, Any]:
    """The answer to each path."""
    runs = {"runs": [RUN, SECOND]}
    return {
        "/headroom/memory": MEMORY, "/headroom/runs": runs,
        f"/headroom/runs/{RUN_ID}": RUN, f"/headroom/runs/{SECOND_ID}": SECOND,
        f"/headroom/runs/{RUN_ID}/advice": ADVICE, f"/headroom/runs/{SECOND_ID}/advice": [],
        "/headroom/purge": REPORT, "/headroom/offload": REPORT, "/headroom/reserve": {},
        "/headroom/limit": {},
        "/headroom/peaks": {}, "/headroom/rescue": {"prompt_id": "p3"},
        "/headroom/estimate": {"verdict": "fits", "lines": [{"text": "It fits.", "said": None}]},
        "/headroom/bug-report": {"runs": []},
    }
