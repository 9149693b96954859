"""The models in any value: found, unloaded, and restored when used again."""
