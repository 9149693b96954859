"""The kinds of GPU that tests of bytes run on: `gpu` of tests/gpu takes them as its parameter."""

import pytest

SIMULATED = pytest.param("simulated", marks=pytest.mark.host)
FAKE = pytest.param("fake", marks=[pytest.mark.host, pytest.mark.fakecuda])
REAL = pytest.param("real", marks=pytest.mark.gpu)
