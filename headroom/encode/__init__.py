"""Text encoded into conditioning in RAM, and its cache on disk."""
