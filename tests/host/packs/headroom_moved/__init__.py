"""A pack without nodes; prestartup_script.py is its work."""

NODE_CLASS_MAPPINGS: dict[str, type] = {}
