"""The nodes of the pack, in the order of the contract."""

from .offload_model import OffloadModel
from .purge_vram import PurgeVRAM
from .restore_order import RestoreOrder
from .size_sorter import SizeSorter

NODES = [PurgeVRAM, OffloadModel, SizeSorter, RestoreOrder]
