"""comfy-aimdo, since 0.6.0: its shape only."""
