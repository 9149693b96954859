"""What `python dev.py fit` prints: a line a card, the peak of every node, and what is in it."""

from collections.abc import Mapping, Sequence
from typing import Any

from .fit_range import words
from .fit_run import ADVISED, GUARDED, PLAIN, Trial
from .fit_verdict import NO_RAM, RESIDENT_BELOW_MIB, Verdict
from .table import render

ORDER = (PLAIN, GUARDED, ADVISED)
NOTHING = "-"


def report(trials: Sequence[Trial], facts: Mapping[str, Any]) -> str:
    """The whole text; `facts` are those of `tools.fit`."""
    parts = [_head(facts), cards(trials), largest(trials), needs(trials), peaks(trials),
             added(trials, facts)]
    more = (copied(trials, facts["room_copied_mib"]), _stops(trials, facts["comfyui"]),
            _applied(trials))
    parts += [text for text in more if text]
    return "\n\n".join(parts)


def _head(facts: Mapping[str, Any]) -> str:
    lines = [f"{facts['workflow']}, dry, on ComfyUI {facts['comfyui']}, compute capability "
             f"{facts['capability']}"]
    lines += [f"  {place}: {entry['mib']:,.0f} MiB ({entry['from']})"
              for place, entry in facts["files"].items()]
    if facts["limit"]:
        lines.append(f"  below HEADROOM_VRAM_LIMIT, {facts['limit']}, on every card")
    if facts["left_out"]:
        lines.append("  left out, so that the workflow needs somewhat more: LoRAs whose sizes are "
                     f"not known, {', '.join(facts['left_out'])}")
    if facts["made_pictures"]:
        lines.append(f"  grey pictures of {facts['side']} px, videos of 5 s and 10 s of silence "
                     f"stand for {', '.join(facts['made_pictures'])}")
    return "\n".join(lines)


def ways(trials: Sequence[Trial]) -> list[str]:
    return [way for way in ORDER if any(trial.way == way for trial in trials)]


def cards(trials: Sequence[Trial]) -> str:
    """One line a card: the verdict on each way."""
    known = {(trial.card_gib, trial.way): trial for trial in trials}
    rows = [["card", *ways(trials)]]
    for gib in dict.fromkeys(trial.card_gib for trial in trials):
        found = [known.get((gib, way)) for way in ways(trials)]
        rows.append([f"{gib:g} GiB", *(_said(trial) if trial else NOTHING for trial in found)])
    return render(rows, left=range(len(rows[0])))


def _said(trial: Trial) -> str:
    """The verdict; of one that is near the card's size what it may need, and what comes then."""
    if trial.at_worst is None:
        return trial.verdict.text
    return f"{trial.verdict.text}, or {trial.at_worst.text}: needs {words(trial.range_mib)}"


def largest(trials: Sequence[Trial]) -> str:
    """The peak of the whole run on every card and way; "-" where it did not end."""
    found = {(trial.card_gib, trial.way): trial.peak_mib for trial in trials
             if trial.verdict.word in ("resident", "streams")}
    sizes = list(dict.fromkeys(trial.card_gib for trial in trials))
    rows = [["largest peak, MiB", *(f"{gib:g} GiB" for gib in sizes)]]
    rows += [[way, *(_mib(found.get((gib, way))) for gib in sizes)] for way in ways(trials)]
    return render(rows)


def needs(trials: Sequence[Trial]) -> str:
    """From which to which amount a resident run needs; "-" where weights fill what there is."""
    found = {(trial.card_gib, trial.way): words(trial.range_mib).removesuffix(" GiB")
             for trial in trials if trial.verdict.word == "resident"}
    sizes = list(dict.fromkeys(trial.card_gib for trial in trials))
    rows = [["needs, GiB", *(f"{gib:g} GiB" for gib in sizes)]]
    rows += [[way, *(found.get((gib, way), NOTHING) for gib in sizes)] for way in ways(trials)]
    return render(rows)


def peaks(trials: Sequence[Trial]) -> str:
    """The peak of every node on every card, as the workflow is."""
    plain = [trial for trial in trials if trial.way == PLAIN]
    found = [{node.node_id: node for node in trial.nodes} for trial in plain]
    names = {key: node.title for nodes in found for key, node in nodes.items()}
    rows = [["", "peak of each node, MiB", *(f"{trial.card_gib:g} GiB" for trial in plain)]]
    for key, title in names.items():
        rows.append([key, title, *(_mib(nodes[key].peak_mib) if key in nodes else NOTHING
                                   for nodes in found)])
    return render(rows)


def added(trials: Sequence[Trial], facts: Mapping[str, Any]) -> str:
    """Return the parts of the peaks that are no tensors of models or pictures, in lines."""
    plain = [trial for trial in trials if trial.way == PLAIN]
    largest = [max(trial.nodes, key=lambda node: node.peak_mib, default=None) for trial in plain]
    rows = [["", "of the largest peak, MiB", *(f"{trial.card_gib:g} GiB" for trial in plain)]]

    def line(what: str, figures: Sequence[float | None]) -> None:
        rows.append(["", what, *(_mib(figure) for figure in figures)])

    context = facts["context_mib"]
    line("tensors and weights", [node.need_mib - context if node else None for node in largest])
    line("  in them, at most: layout copies of a convolution",
         [node.workspace_mib if node else None for node in largest])
    line("CUDA context (0.3 to 0.9 GB on real cards)", [context for _ in largest])
    line("kept by the allocator",
         [node.peak_mib - node.need_mib if node else None for node in largest])
    line("not modelled, at most: workspaces, a larger context",
         [node.unmodelled_mib if node else None for node in largest])
    return render(rows)


def copied(trials: Sequence[Trial], room_mib: Mapping[str, float]) -> str:
    """Return what nodes without steps (encoders) copied, if with room they copy another amount.

    The verdict is of the steps alone; an encoder that streams, or computes on the CPU, shows here.
    """
    plain = [trial for trial in trials if trial.way == PLAIN]
    titles = {node.node_id: node.title for trial in plain for node in trial.nodes}
    here = [{node.node_id: node.copied_mib for node in trial.nodes if node.node_id in room_mib}
            for trial in plain]
    found = [room_mib, *here]
    sums = [sum(nodes.values()) for nodes in found]
    differ = [abs(total - sums[0]) >= RESIDENT_BELOW_MIB
              for total, nodes in zip(sums, found, strict=True) if nodes.keys() == room_mib.keys()]
    if not any(differ):
        return ""
    rows = [["", "copied to the GPU outside of steps, MiB", "with room",
             *(f"{trial.card_gib:g} GiB" for trial in plain)]]
    for key in room_mib:
        if any(nodes.get(key, 0.0) >= RESIDENT_BELOW_MIB for nodes in found):
            rows.append([key, titles.get(key, ""), *(_mib(nodes.get(key)) for nodes in found)])
    rows.append(["", "in all", *map(_mib, sums)])
    return (f"{render(rows)}\nIf a sum is below the one with room, something is computed on the "
            "CPU; if it is above, weights are streamed or loaded again.")


def _stops(trials: Sequence[Trial], comfyui: str) -> str:
    told = {_stop(trial.verdict, comfyui) for trial in trials
            if trial.verdict.word in ("stopped", "not loaded")}
    return "\n".join(sorted(told))


def _stop(found: Verdict, comfyui: str) -> str:
    why = found.why.splitlines()[0] if found.why else "no reason told"
    if found.word == "not loaded":
        return (f"{found.node}: ComfyUI {comfyui} does not load {found.file}, and may not know "
                f"this model yet ({why}); name a newer one with --comfyui.")
    if NO_RAM in found.why:
        return f"{found.node} needs RAM that this machine does not give ({why})."
    return (f"{found.node} needs what a dry run does not have, such as real values ({why}); the "
            "figures are those up to there.")


def _applied(trials: Sequence[Trial]) -> str:
    lines = [f"  {trial.card_gib:g} GiB: {text}" for trial in trials for text in trial.applied]
    return "\n".join(["Advice applied:", *lines]) if lines else ""


def _mib(figure: float | None) -> str:
    return NOTHING if figure is None else f"{figure:,.0f}"
