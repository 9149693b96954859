"""Turn two snapshots and a list of sentences into the text that our nodes show."""

from dataclasses import dataclass

from ..base.device import MIB, in_mib, tenths
from ..base.said import said, said_json
from .snapshot import DeviceMemory, Snapshot, freed_bytes, freed_mib, freed_rss_mib

RSS = said("process RSS")
Figure = tuple[str, int | None, int | None]  # its name, before and after


@dataclass(frozen=True)
class Report:
    """The result of an action: a headline, its steps, and the measured figures."""

    headline: str
    steps: tuple[str, ...]
    before: Snapshot
    after: Snapshot

    @property
    def freed_mib(self) -> float | None:
        """MiB of its devices that this process freed, never below 0; None: not known."""
        return freed_mib(self.before, self.after)

    @property
    def text(self) -> str:
        """The report: headline, steps, then a line for each figure's before, after, difference.

        It is also valid Markdown for ComfyUI's Preview Any, where two spaces end a line. The panel
        writes the same in its user's language: `reportText` in js/lib/say.js.
        """
        steps = [f"- {step}" for step in self.steps]
        table = "  \n".join(difference_table(self.before, self.after))
        return "\n".join([self.headline, *steps, "", table])

    def as_json(self) -> dict[str, object]:
        return {
            "text": self.text,
            "headline": self.headline,
            "steps": list(self.steps),
            "freed_mib": in_mib(freed_bytes(self.before, self.after)),
            "freed_rss_mib": round(max(0.0, freed_rss_mib(self.before, self.after)), 3),
            "said": {
                "headline": said_json(self.headline),
                "steps": [said_json(step) for step in self.steps],
            },
            "figures": figures(self.before, self.after),
        }


def nothing_done(why: str, now: Snapshot) -> Report:
    """Return the report of an action that this ComfyUI cannot do, with the reason."""
    return Report(why, (), now, now)


def difference_table(before: Snapshot, after: Snapshot) -> list[str]:
    """Return one line for each figure: name, before, after, difference, in MiB."""
    rows = [] if after.devices else ["no GPU: this server runs its models on the CPU"]
    for device, told in _by_device(before, after):
        in_use = device is None or device.in_use
        heading = "RAM" if device is None else _called(device)
        rows.append(heading if in_use else f"{heading}, not in use by this process")
        rows += [_row(*figure) for figure in told]
    return rows


def figures(before: Snapshot, after: Snapshot) -> list[dict[str, object]]:
    """Return the same figures as data: device (None for RAM), name, before and after in MiB."""
    return [{"device": None if device is None else _called(device), "name": name,
             "before_mib": in_mib(old), "after_mib": in_mib(new)}
            for device, told in _by_device(before, after) for name, old, new in told]


def _by_device(
    before: Snapshot, after: Snapshot
) -> list[tuple[DeviceMemory | None, list[Figure]]]:
    """Return the figures of each device, and then those of RAM, for which the device is None."""
    earlier = {device.device: device for device in before.devices}
    return [*((device, _figures(earlier.get(device.device, device), device))
              for device in after.devices),
            (None, [(RSS, before.rss_bytes, after.rss_bytes)])]


def _called(device: DeviceMemory) -> str:
    if device.name == device.device:
        return device.device
    return f"{device.device} ({device.name})"


def _figures(old: DeviceMemory, new: DeviceMemory) -> list[Figure]:
    driver_free = (said("driver free"), old.driver_free_bytes, new.driver_free_bytes)
    if not new.in_use:
        return [driver_free]
    return [
        driver_free,
        (said("torch allocated"), old.allocated_bytes, new.allocated_bytes),
        (said("torch reserved"), old.reserved_bytes, new.reserved_bytes),
        (said("dynamic-VRAM pages"), old.dynamic_bytes, new.dynamic_bytes),
    ]


def _row(name: str, old: int | None, new: int | None) -> str:
    if old is None or new is None:
        return f"  {name:<19} not known here"
    return (
        f"  {name:<19} {old / MIB:>10,.1f} -> {new / MIB:>10,.1f} MiB"
        f"  ({tenths((new - old) / MIB):+,.1f})"
    )
