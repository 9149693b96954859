"""The nodes of the pack, in the order of the contract."""

from .offload_model import OffloadModel
from .purge_vram import PurgeVRAM

NODES = [PurgeVRAM, OffloadModel]
