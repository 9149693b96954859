"""Development tools: the environment, a real ComfyUI, small models and a client for it.

Used by `dev.py`, the tests and the benchmarks; not part of the installed node pack.
"""
