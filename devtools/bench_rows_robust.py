"""The table lines of the benchmarks about recovery, overhead and robustness; see bench_rows.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
Say = Callable[[str, str], str]
Row = tuple[str, str]


def oom_capacity(r: Json, say: Say) -> list[Row]:
    needs, sampling = r["smallest_mib"], r["floor_by_stage"]["sample"]["mib"]
    return [(
        say(f"Smallest capacity that completes, SD1.5 class, {r['size']} px, batch {r['batch']}",
            f"能完成的最小容量，SD1.5 类，{r['size']} px，批量 {r['batch']}"),
        say(f"stock {needs['stock']} MiB, OOM Guard {needs['guard with everything']} MiB; one "
            f"conditioning of one image needs {r['single_mib']} MiB, the largest single layer "
            f"{r['floor']['mib']:.1f} MiB, in sampling {sampling:.1f} MiB",
            f"原版 {needs['stock']} MiB，OOM Guard {needs['guard with everything']} MiB；"
            f"单张图的单个条件需要 {r['single_mib']} MiB，"
            f"仅最大的一层就需要 {r['floor']['mib']:.1f} MiB，采样中最大的一层 {sampling:.1f} MiB"),
    )]


def capacity_classes(r: Json, say: Say) -> list[Row]:
    depth = r["depth"]
    blocks = "" if depth == 1 else say(f", {depth:.0%} of its blocks", f"，{depth:.0%} 的块")
    return [
        (say(f"Smallest capacity that samples, {name} class at its real layer sizes{blocks}, "
             f"{_pictures(found, say)}",
             f"能完成采样的最小容量，{name} 类，真实的层尺寸{blocks}，{_pictures(found, say)}"),
         _needs(found, max(r.get("gib", [0])), say))
        for name, found in r["classes"].items()
    ]


def _pictures(found: Json, say: Say) -> str:
    count, (width, height, frames) = found["batch"], found["picture"]
    if frames > 1:
        return say(f"batch {count}, {width}x{height}, {frames} frames",
                   f"批量 {count}，{width}x{height}，{frames} 帧")
    return say(f"batch {count}, {width}x{height}", f"批量 {count}，{width}x{height}")


def _needs(found: Json, most_gib: float, say: Say) -> str:
    if "smallest_mib" in found:
        stock, guarded = (f"{found['smallest_mib'][way]:,} MiB" for way in ("stock", "guarded"))
        share = found["guard_of_stock"]
        return say(f"stock {stock}, OOM Guard {guarded} ({share:.2f})",
                   f"原版 {stock}，OOM Guard {guarded}（{share:.2f}）")
    needs = (found["smallest_gib"][way] for way in ("stock", "guarded"))
    stock, guarded = (f"{need:g} GiB" if need else f"> {most_gib:g} GiB" for need in needs)
    return say(f"stock {stock}, OOM Guard {guarded}", f"原版 {stock}，OOM Guard {guarded}")


def oom_overhead(r: Json, say: Say) -> list[Row]:
    device, guard = r["device"], r["guard"]
    low, high = guard["interval_95_percent"]
    return [
        (say(f"CPU time that OOM Guard itself takes in a step while nothing fails ({device})",
             f"没有失败时 OOM Guard 自身每步占用的 CPU 时间（{device}）"),
         f"{r['own_us'] / 1000:.2f} ms"),
        (say("Time that a guarded step takes longer than an unguarded one of the same sampling",
             "同一次采样中受保护的步骤比未保护的步骤多用的时间"),
         say(f"{guard['added_percent']:+.2f} % of {guard['plain_ms']:.0f} ms "
             f"(95 %: {low:+.2f} to {high:+.2f})",
             f"{guard['plain_ms']:.0f} ms 的 {guard['added_percent']:+.2f} %"
             f"（95 %：{low:+.2f} 到 {high:+.2f}）")),
    ]


def oom_sweep(r: Json, say: Say) -> list[Row]:
    parts = r["parts"].values()
    tried = sum(part["tried"] for part in parts)
    wrong = sum(len(part["problems"]) for part in parts)
    return [(say("Allocations failed one after the other under OOM Guard, and runs that then went "
                 "wrong", "在 OOM Guard 下依次使其失败的分配次数，以及因此出错的运行"),
             f"{tried:,}, {wrong}")]


def recorder_overhead(r: Json, say: Say) -> list[Row]:
    wide, deep, idle = r["chains_of_10"], r["one_chain"], r["idle_cpu_ms_per_s"]
    blocks = r["recorded_blocks"]["recorder"]
    low, high = blocks["interval_95_percent"]
    return [
        (say(f"CPU time spent in the recorder in a run of {r['nodes']} trivial nodes: one chain, "
             "chains of 10",
             f"{r['nodes']} 个简单节点的运行中记录器占用的 CPU 时间：一条链，每条 10 个节点的链"),
         f"{deep['percent_of_run']:.2f} %, {wide['percent_of_run']:.2f} %"),
        (say("Time that recorded trivial nodes take longer than unrecorded ones of the same run",
             "同一次运行中，被记录的简单节点比未被记录的多用的时间"),
         say(f"{blocks['added_percent']:.1f} % (95 %: {low:.1f} to {high:.1f})",
             f"{blocks['added_percent']:.1f} %（95 %：{low:.1f} 到 {high:.1f}）")),
        (say("CPU time a second of an idle server, with the pack and without",
             "空闲服务器每秒的 CPU 时间，有本包与没有本包"),
         f"{idle['with']:.2f} ms, {idle['without']:.2f} ms"),
    ]


def import_time(r: Json, say: Say) -> list[Row]:
    return [(say("Import of the pack into a running ComfyUI", "在运行中的 ComfyUI 里导入本包"),
             say(f"{r['import_ms']:.0f} ms, of them {r['cpu_ms']:.0f} ms of CPU time",
                 f"{r['import_ms']:.0f} ms，其中 CPU 时间 {r['cpu_ms']:.0f} ms"))]


def soak(r: Json, say: Say) -> list[Row]:
    right = ("identical", "within")  # what gave a picture first, then what failed and why
    ordered = sorted(r["outcomes"].items(), key=lambda item: not item[0].startswith(right))
    outcomes = ", ".join(f"{count} {name}" for name, count in ordered)
    return [(say(f"{r['prompts']} prompts of mixed kinds under injected faults: outcomes",
                 f"{r['prompts']} 个混合提示词在注入故障下的结果"),
             outcomes + say(f"; {len(r['problems'])} things wrong",
                            f"；{len(r['problems'])} 处错误"))]


def comfyui_tests(r: Json, say: Say) -> list[Row]:
    return [(say(f"ComfyUI's own `{r['tests']}`, with the pack and without: tests that differ",
                 f"ComfyUI 自己的 `{r['tests']}`，装与不装本包：结果不同的测试"),
             say(f"{len(r['differing'])} of {r['count']}", f"{r['count']} 个中的 "
                 f"{len(r['differing'])} 个"))]
