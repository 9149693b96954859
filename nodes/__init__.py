"""The nodes of the pack, in the order of the contract."""

from .cast_bf16 import CastBF16
from .encode_to_cpu import EncodeToCPU
from .load_conditioning import LoadConditioning
from .memory_report import MemoryReport
from .move_to_cpu import MoveToCPU
from .offload_model import OffloadModel
from .oom_guard import OOMGuard
from .purge_vram import PurgeVRAM
from .restore_order import RestoreOrder
from .save_conditioning import SaveConditioning
from .size_sorter import SizeSorter

NODES = [
    PurgeVRAM,
    OffloadModel,
    CastBF16,
    EncodeToCPU,
    MoveToCPU,
    SizeSorter,
    RestoreOrder,
    OOMGuard,
    MemoryReport,
    SaveConditioning,
    LoadConditioning,
]
