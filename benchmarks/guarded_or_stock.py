"""Is OOM Guard ever worse than no guard? The same prompts with it and without, under dynamic VRAM.

    python benchmarks/guarded_or_stock.py --comfyui PATH --fake-cuda [--cases decode] [--mib 448]

SD1.5 at its published size (a file that holds no weights) on the fake CUDA driver, with ComfyUI's
defaults, at capacities from comfortable to impossible: a VAE decode of 1024x1024 pixels, and a
whole prompt of eight pictures of 512x512. Each capacity has a server that was started on such a
device; three times, either way first in turn, two prompts each, on a device that is empty before
the first.

It counts what `recovery_cost` counts, and also failed decodes of stock that ComfyUI itself repeats
in tiles. comfy-aimdo's pager asks every two seconds what is free, at moments that depend on chance:
the same prompt of stock can copy half as much again the next time. So it is a problem only if stock
completes each time and a guarded prompt does not, or if the median guarded prompt has more failed
calls, or over 1 % more bytes or launches, than the worst one of stock. With three equal runs each
way this happens by chance in one of five cases, so such a capacity is repeated, up to twelve times:
then in one of 140.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import on_path  # noqa: F401
from recovery_cost import Cost
from recovery_cost import add_arguments as add_cost_arguments

from tools.bench_run import alone
from tools.dry_server import DryServer
from tools.errors import DevError, NotHere
from tools.graph import Graph, add_checkpoint, add_guard

NAME = "guarded_or_stock"
CAPACITIES_MIB = {
    "decode": (3072, 2048, 1536, 1024, 768, 640, 512, 448, 384, 256, 192, 128),
    "batch": (6144, 3072, 1536, 1024, 800, 678, 542, 448, 407, 330, 271, 200),
}
FALLBACK = "retrying with tiled VAE"  # ComfyUI's log, in 0.3.75 and in 0.33.0
COUNTED = ("failed_calls", "copied_mib", "launches")
SLACK = 1.01
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_cost_arguments(parser)
    parser.set_defaults(steps=1)
    parser.add_argument("--cases", nargs="+", choices=list(CAPACITIES_MIB),
                        default=list(CAPACITIES_MIB))
    parser.add_argument("--mib", nargs="+", type=int, help="default: twelve for each case")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--most", type=int, default=12, help="repeats where the guard seems worse")


def run(args: argparse.Namespace) -> Json:
    """Return both ways' counters for each case and capacity, and where the guarded one is worse."""
    if not args.fake_cuda:
        raise NotHere("it counts what the fake CUDA driver sees (--fake-cuda)")
    try:
        cases = _Both(args).measured()
    except DevError as error:
        raise NotHere(str(error)) from error
    everything = [both for found in cases.values() for both in found.values()]
    problems = [f"{name}, {mib}: {what}" for name, found in cases.items()
                for mib, both in found.items() for what in worse(both)]
    return {"cases": cases, "capacities": len(everything),
            "only_guarded": sum(only_guarded(both) for both in everything),
            "of_stock": {key: of_stock(everything, key) for key in COUNTED[1:]},
            "problems": problems}


def worse(both: Json) -> list[str]:
    """Return in what the guarded prompts of one capacity are worse than those of stock."""
    found = []
    for which in ("first", "second"):
        stock, guarded = both["stock"][which], both["guarded"][which]
        if not completes(stock):
            continue
        if not completes(guarded):
            found.append(f"the {which} prompt fails with the guard alone")
            continue
        for key in COUNTED:
            ours, most = middle(guarded, key), max(one[key] for one in stock)
            if ours > most * SLACK:
                found.append(f"{which} prompt, {key}: {ours:g} against {most:g}")
    return found


def only_guarded(both: Json) -> bool:
    """Whether all guarded prompts complete and not all of stock do."""
    return all(map(completes, both["guarded"].values())) and not all(
        map(completes, both["stock"].values()))


def of_stock(several: list[Json], key: str) -> float:
    """The middle guarded prompts against stock, summed over all that complete both ways."""
    pairs = [(middle(both["guarded"][which], key), middle(both["stock"][which], key))
             for both in several for which in ("first", "second")
             if completes(both["guarded"][which]) and completes(both["stock"][which])]
    return round(sum(ours for ours, _ in pairs) / max(sum(theirs for _, theirs in pairs), 1), 3)


def completes(runs: list[Json]) -> bool:
    return all(one["completed"] for one in runs)


def middle(runs: list[Json], key: str) -> float:
    return float(statistics.median(one[key] for one in runs))


class _Both(Cost):
    """The measurements, each capacity on a server that started on such a device."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__("SD1.5", args)

    def measured(self) -> Json:
        with tempfile.TemporaryDirectory() as folder:
            return {name: {f"{mib} MiB": self.both(Path(folder), name, mib)
                           for mib in self.args.mib or CAPACITIES_MIB[name]}
                    for name in self.args.cases}

    def both(self, folder: Path, name: str, mib: int) -> Json:
        ways: list[tuple[str, Json | None]] = [("guarded", {}), ("stock", None)]
        found: Json = {way: {"first": [], "second": []} for way, _ in ways}
        with self.server(mib, folder) as dry:
            for turn in range(self.args.most):
                if turn >= self.args.repeats and not worse(found):
                    break
                for way, options in ways[:: -1 if turn % 2 else 1]:
                    dry.empty(mib)
                    for which in ("first", "second"):
                        found[way][which].append(self.tried(dry, name, options))
        print(name, mib, {way: {which: [[one["completed"], *(one[key] for key in COUNTED)]
                                        for one in ones] for which, ones in both.items()}
                          for way, both in found.items()},
              worse(found), file=sys.stderr, flush=True)
        return found

    def tried(self, dry: DryServer, name: str, options: Json | None) -> Json:
        before = dry.log_text().count(FALLBACK)
        if name == "batch":
            one = self.one(dry, guard=options)
        else:
            one = self.counted(dry, self.decode(options))
        one["failed_calls"] += dry.log_text().count(FALLBACK) - before
        return one

    def decode(self, options: Json | None) -> Json:
        """A decode alone, of another latent in every prompt."""
        self.seed += 1
        graph = Graph()
        vae = add_checkpoint(graph, self.kind.files[0].rpartition("/")[2])[2]
        if options is not None:
            vae = add_guard(graph, vae, **options)[0]
        latent = graph.add("EmptyLatentImage", width=1024, height=1024, batch_size=1)
        other = graph.add("LatentMultiply", samples=latent, multiplier=1.0 + self.seed / 1000)
        graph.add("PreviewAny", source=graph.add("VAEDecode", samples=other, vae=vae))
        return graph.prompt


if __name__ == "__main__":
    alone()
