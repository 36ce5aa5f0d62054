"""Fixtures of the bootstrap's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.bootstrap.tests.machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine whose PATH has shell tools only."""
    return Machine(tmp_path)
