"""A rerun for a prompt that ran out of memory: guarded, and only what had failed."""
