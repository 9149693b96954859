"""Findings in English; `locales/` has the same sentences in every language, by kind."""

from typing import Any

from .finding import Finding

SENTENCES = {
    "encode_to_cpu": "The text encoder {model} ({held}) stays on the GPU while {node} runs, which "
                     "does not need it. Let Encode to CPU encode the prompts: it keeps the result "
                     "in RAM and lets the encoder go.",
    "offload_after": "{model} ({held}) stays on the GPU while {node} runs, which does not need it. "
                     "Put Offload Model behind the last node that uses it.",
    "oom_guard": "{node} needs the most memory of this run: {peak} were in use. With OOM Guard it "
                 "goes on in smaller pieces instead of failing where that is not there.",
    "oom_guard_failed": "{node} ran out of memory when it asked for {asked}. With OOM Guard it "
                        "frees what it can and tries again in smaller pieces.",
}


def text_of(finding: Finding) -> str:
    """Return the English sentence of a finding."""
    return SENTENCES[key_of(finding)].format(**finding.values)


def key_of(finding: Finding) -> str:
    """Return the name of its sentence: its kind, or one of two that a kind has."""
    return str(finding.values.get("sentence", finding.kind))


def mib_text(amount_bytes: float) -> str:
    """Return an amount as a person reads it."""
    mib = amount_bytes / 2**20
    return f"{mib / 1024:,.1f} GiB" if mib >= 1024 else f"{mib:,.0f} MiB"


def amounts(**named: int) -> dict[str, Any]:
    """Return amounts in bytes as text for a sentence, and as numbers for other languages."""
    return {name: mib_text(amount) for name, amount in named.items()}
