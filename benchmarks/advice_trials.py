"""What `advice.py` measures on one device: a prompt as it is, and after what is advised on it."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from tools import advice
from tools.bench_device import MIB, Device, narrowed
from tools.client import Client, PromptFailed
from tools.jobs import SEEDS

Json = dict[str, Any]
AGAIN = 3  # runs on one device, for what grows from run to run
FIGURES = (("peak_reserved", "peak_reserved"), ("left_reserved", "reserved"),
           ("left_allocated", "allocated"))


class Trials:
    """One device, and the prompts that are tried on it."""

    def __init__(self, device: Device, args: argparse.Namespace) -> None:
        self.device, self.client, self.args = device, device.client, args
        self.broken: list[str] = []  # what ended in another error than out of memory

    def compared(self, stock: Json) -> tuple[Json, list[list[Json]]]:
        """The prompt as it is and after all advice; also the edits, round by round."""
        before, wanted = self.needs(stock)
        found = self.advice()
        result: Json = {"stock": before, "predicted_peak_mib": self.predicted()}
        unchanged = {"advised": dict(before), "first_peak_mib": before["peak_reserved_mib"],
                     "pictures": {"advice": [], "count": len(wanted), "same": True}}
        followed, rounds = self.followed(stock, found, wanted)
        return {**result, **unchanged, **followed}, rounds

    def followed(
        self, prompt: Json, found: list[Json], wanted: list[bytes]
    ) -> tuple[Json, list[list[Json]]]:
        """Return the prompt with the advice in it, and with the advice that follows from that."""
        result: Json = {"advice": []}
        rounds: list[list[Json]] = []
        while len(rounds) < self.args.rounds:
            edits = [one for one in found if one["edit"] is not None]
            if not edits:
                break
            changed = advice.applied(prompt, edits)
            result["advised"], made = self.needs(changed)
            result["advice"].append([one["id"] for one in edits])
            if not rounds:
                result["first_peak_mib"] = result["advised"]["peak_reserved_mib"]
                found = self.advice()
                result["pictures"] = self.pictures(prompt, edits, made, wanted)
            else:
                found = self.advice()
            rounds.append(edits)
            prompt = changed
        return result, rounds

    def predicted(self) -> list[float] | None:
        """The peak to expect with all advice about models, of the run that was just made."""
        newest = self.client.get_json("/headroom/runs?limit=1")["runs"][0]
        steps = [one for one in advice.of(self.client, newest["prompt_id"], into_gib=0.001)
                 if one["kind"] != "oom_guard"]
        return steps[-1]["expected_mib"] if steps else None

    def pictures(
        self, prompt: Json, edits: list[Json], made: list[bytes], wanted: list[bytes]
    ) -> Json:
        """Whether the pictures are the same with all advice that says so, and OOM Guard unused."""
        same = [one for one in edits if not one["changes_picture"] or one["kind"] == "oom_guard"]
        if len(same) < len(edits):
            _, made = self.needs(advice.applied(prompt, same))
        return {"advice": [one["id"] for one in same], "count": len(wanted),
                "same": made == wanted}

    def advice(self) -> list[Json]:
        """The advice on the run that was just made."""
        newest = self.client.get_json("/headroom/runs?limit=1")["runs"][0]
        return advice.of(self.client, newest["prompt_id"])

    def needs(self, prompt: Json) -> tuple[Json, list[bytes]]:
        """With room on an empty device: the peak, what stays, what grows later, and pictures."""
        self.device.empty()
        self.device.reset_peaks()
        entry = self.client.run(prompt, timeout=7200.0)
        result = self.figures()
        print(f"  {result}", file=sys.stderr, flush=True)
        return result, pictures_of(self.client, entry)

    def figures(self) -> Json:
        measured = self.device.collect()
        return {f"{name}_mib": round(measured[f"{figure}_bytes"] / MIB, 1)
                for name, figure in FIGURES}

    def growth(self, prompt: Json) -> float:
        """What further runs with other seeds add to what tensors hold on the device, each."""
        self.device.empty()
        held = []
        for number in range(AGAIN):
            self.client.run(seeded(prompt, number), timeout=7200.0)
            held.append(self.figures()["left_allocated_mib"])
        return round((held[-1] - held[0]) / (AGAIN - 1), 2)

    def lines_growth(self, prompts: Sequence[tuple[int, Json]]) -> float:
        """What each further prompt of a list adds to what tensors hold."""
        held = [self.needs(prompt)[0]["left_allocated_mib"] for _, prompt in prompts]
        return round((held[-1] - held[0]) / (prompts[-1][0] - prompts[0][0]), 2)

    def smallest(self, prompt: Json, low: int, high: int) -> int:
        """The smallest capacity that completes, to a step of `--step`; `low` does not."""
        while not self.completes(prompt, high):
            low, high = high, int(high * 1.25) + 1
        return narrowed(lambda mib: self.completes(prompt, mib), low, high,
                        near=lambda low, high: high - low <= max(2, self.args.step * high))

    def first(self, prompt: Json, wanted: Sequence[int]) -> int:
        """The first of some growing capacities that completes, else the smallest above them."""
        for mib in wanted:
            if self.completes(prompt, mib):
                return mib
        return self.smallest(prompt, wanted[-1], int(wanted[-1] * 1.25) + 1)

    def completes(self, prompt: Json, mib: int) -> bool:
        print(f"  {mib} MiB", file=sys.stderr, flush=True)
        try:
            return self.device.attempt(prompt, mib) is None
        except PromptFailed as error:
            if not self.was_memory(error):
                self.broken.append(f"at {mib} MiB: {error}")
            return False

    def was_memory(self, error: PromptFailed) -> bool:
        """Whether memory ran out before: ComfyUI then tries a VAE that is half on the CPU in tiles,
        and that ends in another error.
        """
        run = self.client.get_json(f"/headroom/runs/{error.entry['prompt'][1]}")
        return run["failure"] is not None


def applied(prompt: Json, rounds: list[list[Json]]) -> Json:
    """A prompt with the edits of all rounds."""
    for edits in rounds:
        prompt = advice.applied(prompt, edits)
    return prompt


def seeded(prompt: Json, seed: int) -> Json:
    """The prompt with this seed wherever it has one of its own."""
    return {key: {**node, "inputs": {
        name: seed if name in SEEDS and isinstance(value, int) else value
        for name, value in node["inputs"].items()}} for key, node in prompt.items()}


def pictures_of(client: Client, entry: Json) -> list[bytes]:
    """The pixels of all pictures that a run made."""
    from io import BytesIO
    from urllib.parse import urlencode

    from PIL import Image

    outputs = entry["outputs"]
    images = [image for _, output in sorted(outputs.items()) for image in output.get("images", [])]
    files = [client.get_bytes("/view?" + urlencode(image)) for image in images]
    return [Image.open(BytesIO(data)).convert("RGB").tobytes() for data in files]
