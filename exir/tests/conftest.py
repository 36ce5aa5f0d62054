"""What the tests of exir share."""

import pytest
import torch

from pteron.exir.backend import leftovers
from pteron.exir.tests.backends import OpsPartitioner


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _leftovers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What partitioners leave goes to a backend in Python."""
    monkeypatch.setattr(leftovers, "_make", lambda lowered: OpsPartitioner(backend="OtherBackend"))
