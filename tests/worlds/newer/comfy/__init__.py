"""What ComfyUI has in single files that are newer than any whole tree at hand: their shape only.

Each module says where it was seen. Nothing here works; headroom/host/contract.py is checked
against it.
"""
