"""The nodes of the pack, in the order of the contract."""

from .encode_to_cpu import EncodeToCPU
from .move_to_cpu import MoveToCPU
from .offload_model import OffloadModel
from .purge_vram import PurgeVRAM
from .restore_order import RestoreOrder
from .size_sorter import SizeSorter

NODES = [PurgeVRAM, OffloadModel, EncodeToCPU, MoveToCPU, SizeSorter, RestoreOrder]
