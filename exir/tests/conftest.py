"""What the tests of exir share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from pteron.exir import kernels


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def only_kernels(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretends that the runtime has these kernels and no others."""

    def pretend(*names: str) -> None:
        monkeypatch.setattr(kernels, "kernel_names", lambda: frozenset(names))

    return pretend
