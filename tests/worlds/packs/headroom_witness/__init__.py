"""No nodes: `prestartup_script.py` is what this pack is for."""

NODE_CLASS_MAPPINGS = {}
