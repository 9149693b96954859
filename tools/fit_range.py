"""What a dry run does not model, as an upper bound: from which to which amount a run may need.

1. Workspaces of convolutions: which algorithm cuDNN takes depends on its version and the card. The
   least is none. The largest in use is Winograd's for 3x3, F(2x2, 3x3): it keeps 16 numbers in
   float32 for every 4 that it reads or writes, so 8 copies of both where they have half the
   precision. (Of float32 it is 4: what runs in float32 is given twice too much here.)
2. Weights that are streamed: the copy of the next layer begins while the one before it is still in
   use, so there is one more layer on a card than in a dry run, where all happens at once.
3. The CUDA context, with the kernels that libraries load into it: 0.3 to 0.5 GB are told of
   consumer cards, an H100 took 0.74 to 0.85 GiB (benchmarks/fit_on_gpu.py).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from .sparse_files import SparseFile

if TYPE_CHECKING:
    from headroom.base.ceiling import Amount

LIMIT = "HEADROOM_VRAM_LIMIT"
MOST_COPIES = 8.0
CONTEXT_MORE_MIB = 470.0  # from the 400 MiB of `dev.py fit` to what an H100 took
STREAMED = ("diffusion_models/", "unet/", "checkpoints/")
MIB = 1 << 20


class Unmodelled(NamedTuple):
    """What comes on top of a dry run at most. `copies`: those that it has a convolution ask for.

    `layer_mib`: the largest weight of what samples, of which there are two while it streams.
    """

    copies: float = 1.0
    layer_mib: float = 0.0

    def mib(self, workspace_mib: float) -> float:
        """For a node whose largest workspace was that, with nothing streamed; in MiB."""
        more = max(0.0, MOST_COPIES / self.copies - 1) if self.copies else 0.0
        return workspace_mib * more + CONTEXT_MORE_MIB


def largest_layer_mib(files: Mapping[str, SparseFile]) -> float:
    """The largest weight of the diffusion models among these files, in MiB."""
    return max((weight.nbytes / MIB for place, content in files.items()
                if place.startswith(STREAMED) for weight in content.weights.values()), default=0.0)


def words(range_mib: tuple[float, float]) -> str:
    """Such as "11.5 to 15.6 GiB"."""
    low, high = (f"{mib / 1024:.1f}" for mib in range_mib)
    return f"{low} GiB" if low == high else f"{low} to {high} GiB"


def limit_of(environment: Mapping[str, str]) -> str:
    """HEADROOM_VRAM_LIMIT, where it is a size; a server takes no notice of other words, either."""
    text = environment.get(LIMIT, "")
    return text if _amount(text) else ""


def ceiling_gib(limit: str, card_gib: float) -> float:
    """What a limit leaves of a card; all of it where there is none."""
    amount = _amount(limit)
    return card_gib if amount is None else amount.bytes_of(int(card_gib * 1024 * MIB)) / 1024 / MIB


def _amount(text: str) -> "Amount | None":
    if not text:
        return None  # without torch, which that module imports
    from headroom.base.ceiling import amount_of

    return amount_of(text)
