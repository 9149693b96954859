"""A simulated GPU: a real, unmodified ComfyUI runs on it, and its memory figures are exact."""

from .device import Figures, SimDevice, current
from .faults import KINDS, Fault
from .ledger import Ledger, LedgerFull
from .switch import switch_off, switch_on

__all__ = [
    "KINDS",
    "Fault",
    "Figures",
    "Ledger",
    "LedgerFull",
    "SimDevice",
    "current",
    "switch_off",
    "switch_on",
]
