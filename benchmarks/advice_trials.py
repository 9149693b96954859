"""What `advice.py` measures on one device: a prompt as it is, and after what is advised on it."""

import sys
from typing import Any

from tools import advice
from tools.client import Client
from tools.device import MIB, TIMEOUT_S, Device

Json = dict[str, Any]
ROUNDS = 3
FIGURES = (("peak_reserved", "peak_reserved"), ("left_reserved", "reserved"),
           ("left_allocated", "allocated"))


class Trials:
    """One device, and the prompts that are tried on it."""

    def __init__(self, device: Device) -> None:
        self.device, self.client = device, device.client

    def compared(self, stock: Json) -> Json:
        """The prompt as it is and after all advice."""
        before, wanted = self.needs(stock)
        found = self.advice()
        result: Json = {"stock": before, "predicted_peak_mib": self.predicted()}
        unchanged = {"advised": dict(before), "first_peak_mib": before["peak_reserved_mib"],
                     "pictures": {"advice": [], "count": len(wanted), "same": True}}
        return {**result, **unchanged, **self.followed(stock, found, wanted)}

    def followed(self, prompt: Json, found: list[Json], wanted: list[bytes]) -> Json:
        """What the prompt needs with the advice in it, and with the advice that follows."""
        result: Json = {"advice": []}
        while len(result["advice"]) < ROUNDS:
            edits = [one for one in found if one["edit"] is not None]
            if not edits:
                break
            changed = advice.applied(prompt, edits)
            result["advised"], made = self.needs(changed)
            found = self.advice()
            if not result["advice"]:
                result["first_peak_mib"] = result["advised"]["peak_reserved_mib"]
                result["pictures"] = self.pictures(prompt, edits, made, wanted)
            result["advice"].append([one["id"] for one in edits])
            prompt = changed
        return result

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
        """With room on an empty device: the peak, what stays, and the pictures."""
        self.device.empty()
        self.device.reset_peaks()
        entry = self.client.run(prompt, timeout=TIMEOUT_S)
        measured = vars(self.device.collect())
        result = {f"{name}_mib": round(measured[f"{figure}_bytes"] / MIB, 1)
                  for name, figure in FIGURES}
        print(f"  {result}", file=sys.stderr, flush=True)
        return result, pictures_of(self.client, entry)


def pictures_of(client: Client, entry: Json) -> list[bytes]:
    """The pixels of all pictures that a run made."""
    from io import BytesIO
    from urllib.parse import urlencode

    from PIL import Image

    outputs = entry["outputs"]
    images = [image for _, output in sorted(outputs.items()) for image in output.get("images", [])]
    files = [client.get_bytes("/view?" + urlencode(image)) for image in images]
    return [Image.open(BytesIO(data)).convert("RGB").tobytes() for data in files]
