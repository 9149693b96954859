"""Copies of models in another dtype."""
