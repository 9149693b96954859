"""What the nodes and HTTP do to memory: purge, offload, move to the CPU."""
