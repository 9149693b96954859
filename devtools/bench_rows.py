"""What the tables say about each benchmark: one line a figure, in English and in Chinese."""

from __future__ import annotations

from collections.abc import Callable

from . import bench_rows_robust as robust
from .bench_rows_robust import Json, Row, Say

MIB = 2**20


def english(text: str, _chinese: str) -> str:
    return text


def chinese(_english: str, text: str) -> str:
    return text


def rows_of(name: str, result: Json, say: Say) -> list[Row]:
    """The lines of one benchmark; none for one that has no line in the tables."""
    make = ROWS.get(name)
    return [] if make is None else make(result, say)


def mib(nbytes: float) -> str:
    return f"{nbytes / MIB:,.1f} MiB"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _purge(r: Json, say: Say) -> list[Row]:
    left, peaks = r["left"], r["two_models"]
    floor = left["purge"]["floor_bytes"]
    with_purge, without = (
        peaks[name]["reserved_bytes"] for name in ("with_purge_between", "without")
    )
    return [
        (say("Bytes left after Purge VRAM, against those of the tensors that something still needs",
             "Purge VRAM 之后剩余的字节，与仍被需要的张量的字节之比"),
         say(f"{left['purge']['allocated_of_floor']:.3f} of {mib(floor)}; after `POST /free` "
             f"{left['free_models']['allocated_of_floor']:.3f}, after nothing "
             f"{left['nothing']['allocated_of_floor']:.3f}",
             f"{mib(floor)} 的 {left['purge']['allocated_of_floor']:.3f} 倍；`POST /free` 之后 "
             f"{left['free_models']['allocated_of_floor']:.3f} 倍，什么都不做 "
             f"{left['nothing']['allocated_of_floor']:.3f} 倍")),
        (say("Peak of a prompt over two checkpoints with Purge VRAM between them, against a "
             "`POST /free` that waits for the prompt's end",
             "一个提示词依次使用两个检查点时的峰值：中间放 Purge VRAM，与等到提示词结束才执行的 "
             "`POST /free` 相比"),
         say(f"{mib(with_purge)} against {mib(without)} ({with_purge / without:.2f})",
             f"{mib(with_purge)} 对 {mib(without)}（{with_purge / without:.2f}）")),
    ]


WAYS = {
    "to CPU": ("Offload Model to CPU", "Offload Model 移到 CPU"),
    "back from CPU": ("and back onto the GPU", "再装回 GPU"),
    "to disk, mapped from its file": ("Offload Model to disk, weights as in the model's file",
                                      "Offload Model 移到磁盘，权重与模型文件一致"),
    "back from its file": ("and back onto the GPU", "再装回 GPU"),
    "to disk, scratch file": ("Offload Model to disk, weights written to a scratch file",
                              "Offload Model 移到磁盘，权重写入临时文件"),
    "back from the scratch file": ("and back onto the GPU", "再装回 GPU"),
}


LIMITS = {
    "pinned_to_device_s": ("PCIe onto the GPU", "PCIe 装入 GPU"),
    "pinned_to_cpu_s": ("PCIe off the GPU", "PCIe 移出 GPU"),
    "read_s": ("reading a file", "读文件"),
    "write_s": ("writing a file", "写文件"),
}


def _offload(r: Json, say: Say) -> list[Row]:
    rows = []
    for name, words in WAYS.items():
        way, nbytes = r["ways"][name], r["bytes"]
        ours, plain = (nbytes / way[key] / 1e9 for key in ("seconds", "plain_seconds"))
        rows.append((
            say(*words),
            say(f"{ours:.2f} GB/s, plain copies of the same bytes {plain:.2f} GB/s "
                f"({way['speed_of_plain']:.2f})",
                f"{ours:.2f} GB/s，直接复制同样的字节 {plain:.2f} GB/s"
                f"（{way['speed_of_plain']:.2f}）"),
        ))
    speeds = {name: r["bytes"] / seconds / 1e9 for name, seconds in r["seconds"].items() if seconds}
    limits = [
        f"{say(*words)} {speeds[name]:.2f} GB/s" for name, words in LIMITS.items() if name in speeds
    ]
    return [*rows, (say("What the same machine can do at most, in the same run",
                        "同一次运行中本机的极限"), ", ".join(limits))]


def _encode_loop(r: Json, say: Say) -> list[Row]:
    growth, speed, cache = r["growth"], r["throughput"], r["disk_cache"]
    loader = say("ran", "执行了") if cache["loader_ran_in_second_run"] else say("did not run",
                                                                             "没有执行")
    return [
        (say(f"Growth of the GPU's bytes over {growth['prompts']:,} prompts through Encode to CPU",
             f"Encode to CPU 编码 {growth['prompts']:,} 条提示词后显存的增长"),
         say(f"{growth['gpu_bytes_of_growth']} bytes", f"{growth['gpu_bytes_of_growth']} 字节")),
        (say("RAM held for them, against the embeddings themselves",
             "为此占用的内存，与嵌入本身相比"),
         f"{growth['rss_growth_per_embedding_byte']:.3f}"),
        (say("Throughput against CLIPTextEncode, in CPU time",
             "吞吐量与 CLIPTextEncode 相比（CPU 时间）"),
         f"{speed['cpu_throughput_ratio']:.3f}"),
        (say("Second run from the disk cache", "从磁盘缓存进行的第二次运行"),
         say(f"the loader {loader}, {cache['gpu_peak_bytes_of_second_run']} bytes of VRAM, "
             f"{cache['second_run_s']:.2f} s after {cache['first_run_s']:.2f} s",
             f"加载器{loader}，显存 {cache['gpu_peak_bytes_of_second_run']} 字节，"
             f"{cache['second_run_s']:.2f} 秒（首次 {cache['first_run_s']:.2f} 秒）")),
    ]


def _cast_bytes(r: Json, say: Say) -> list[Row]:
    kinds = ("MODEL", "CLIP", "VAE", "CONTROL_NET")
    ratios = ", ".join(f"{kind} {r[kind]['loaded_ratio']:.4f}" for kind in kinds)
    rows = [(say("Bytes on the GPU after Cast bf16, against float32",
                 "Cast bf16 之后显存中的字节，与 float32 相比"), ratios)]
    if step := r.get("step"):
        rows.append((say("Seconds a step in bfloat16, against float32",
                         "bfloat16 每步秒数，与 float32 相比"),
                     f"{step['bfloat16_of_float32']:.2f}"))
    return rows


MODES = ("native", "expandable_segments", "cudaMallocAsync")


def _mixed_sizes(r: Json, say: Say) -> list[Row]:
    rows = []
    for mode in [name for name in MODES if name in r]:
        up, down = (r[mode][order] for order in ("smallest first", "largest first"))
        rows.append((
            say(f"Mixed sizes, {mode}: smallest capacity, peak reserved, retries there; "
                "largest first against smallest first",
                f"混合尺寸，{mode}：最小容量、保留峰值、该容量下的重试次数；从大到小对从小到大"),
            f"{down['smallest_capacity_mib']} / {up['smallest_capacity_mib']} MiB, "
            f"{down['peak_reserved_mib']:.0f} / {up['peak_reserved_mib']:.0f} MiB, "
            f"{down['tight_retries']} / {up['tight_retries']}",
        ))
    graphs = r["torch_compile"]["static shapes"]
    names = {"mixed": say("mixed", "乱序"), "sorted": say("sorted", "排序"),
             "bucket 128": say("buckets of 128", "按 128 取整"), "padded": say("padded", "补齐")}
    rows.append((
        say(f"Graphs that torch.compile makes for {r['torch_compile']['sizes']} sizes, "
            "static shapes", f"torch.compile 为 {r['torch_compile']['sizes']} 种尺寸编译的图数"
            "（静态形状）"),
        ", ".join(f"{word} {graphs[name]['graphs']}" for name, word in names.items()),
    ))
    return rows


def _second_run(r: Json, say: Say) -> list[Row]:
    again = len(r["same_prompt_again"]["ours"]["ran_again"])
    rows = [(say("Nodes that run when the same prompt is queued again, our nodes in it",
                 "同一提示词再次排队时执行的节点数（含本包节点）"), str(again))]
    for key, words in (
        ("another_seed", ("Second run with another seed", "换一个种子的第二次运行")),
        ("another_seed_after_a_restart",
         ("The same after the server forgot everything", "服务器忘记一切之后的第二次运行")),
    ):
        ours, purged = r[key]["ours"]["cpu_of_stock"], r[key]["ours with purge"]["cpu_of_stock"]
        peaks = [mib(r[key][kind]["peak_reserved_bytes"]) for kind in ("ours", "stock")]
        rows.append((
            say(f"{words[0]}, CPU time and peak against stock",
                f"{words[1]}，CPU 时间和峰值与原版相比"),
            say(f"{ours:.2f}, {peaks[0]} against {peaks[1]}; with Purge VRAM at the end "
                f"{purged:.2f}",
                f"{ours:.2f}，{peaks[0]} 对 {peaks[1]}；结尾有 Purge VRAM 时 {purged:.2f}"),
        ))
    return rows


def _workflows(r: Json, say: Say) -> list[Row]:
    rows = []
    for name, found in r.items():
        pairs = [found[kind].get("smallest_capacity_mib") for kind in ("stock", "headroom")]
        if None not in pairs:
            rows.append((
                say(f"Workflow `{name}`: smallest capacity that completes, stock against ours",
                    f"工作流 `{name}`：能完成的最小容量，原版对本包"),
                f"{pairs[0]} / {pairs[1]} MiB"))
        if loop := found.get("loop"):
            (few, many), stock, ours = (
                loop[key] for key in ("prompts", "stock_left_allocated_mib",
                                      "headroom_left_allocated_mib"))
            rows.append((
                say(f"Workflow `{name}`: growth from {few} to {many} prompts, stock against ours",
                    f"工作流 `{name}`：从 {few} 条到 {many} 条提示词的增长，原版对本包"),
                f"{stock[1] - stock[0]:.1f} / {ours[1] - ours[0]:.1f} MiB"))
    return rows


def _dynamic_vram(r: Json, say: Say) -> list[Row]:
    on, off = r["on"], r["off"]
    return [(say("Dynamic VRAM on against off: peak of the driver's memory, seconds a run, left "
                 "after Purge VRAM", "动态显存开与关：驱动显存峰值、每次秒数、Purge VRAM 后剩余"),
             f"{mib(on['peak_used_bytes'])} / {mib(off['peak_used_bytes'])}, "
             f"{on['seconds']:.2f} / {off['seconds']:.2f} s, "
             f"{mib(on['left_used_bytes'])} / {mib(off['left_used_bytes'])}")]


ROWS: dict[str, Callable[[Json, Say], list[Row]]] = {
    "purge": _purge, "offload": _offload, "encode_loop": _encode_loop, "cast_bytes": _cast_bytes,
    "mixed_sizes": _mixed_sizes, "second_run": _second_run, "workflows": _workflows,
    "capacity_classes": robust.capacity_classes, "oom_capacity": robust.oom_capacity,
    "oom_overhead": robust.oom_overhead, "oom_sweep": robust.oom_sweep, "soak": robust.soak,
    "comfyui_tests": robust.comfyui_tests, "dynamic_vram": _dynamic_vram,
    "recorder_overhead": robust.recorder_overhead, "import_time": robust.import_time,
}
