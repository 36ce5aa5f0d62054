"""What pytest has to know of these tests."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # Of pytest-xdist, where that is installed: cases that share something expensive.
    config.addinivalue_line("markers", "xdist_group(name): run in one process")
