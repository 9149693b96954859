"""Helpers shared by tests: things to build, nothing to assert."""
