"""Advice: what to change in a workflow, how much that saves, and the edit that does it."""
