"""What ComfyUIs between the two under test have, and neither of these: the shape only.

Each module says in which versions. Nothing here works; headroom/host/contract.py is checked
against it.
"""
