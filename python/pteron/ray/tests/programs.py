"""Programs that the tests of this folder run."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import pteron

_BATCH = 4


class Net(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.convolution = nn.Conv2d(3, 8, 3)
        self.linear = nn.Linear(8, 4)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.linear(self.convolution(image).relu().mean((2, 3)))}


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 4)

    def forward(self, ids: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return self.embedding(ids) * scale[:, None, None]


class Refused(nn.Module):
    """Two methods: one with state, one without a batch dimension."""

    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def count(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum())
        return x + self.total

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum()


def export(folder: Path) -> None:
    image = torch.randn(_BATCH, 3, 8, 8)
    for name, seed in (("first", 0), ("second", 1)):
        pteron.export(Net(seed).eval(), (image,), folder / f"{name}.pte")
    batch, time = (torch.export.Dim(name, min=1, max=n) for name, n in (("batch", 8), ("time", 6)))
    ids = torch.zeros(2, 3, dtype=torch.int64)
    refused, x = Refused(), torch.ones(2, 2)
    methods: Any = {
        "dynamic": (Net(0).eval().forward, (image,), ({0: batch},)),
        "tokens": (Tokens().forward, (ids, torch.ones(2)), ({0: batch, 1: time}, {0: batch})),
        "count": (refused.count, (x,)),
        "sum": (refused.sum, (x,)),
    }
    pteron.export(methods, path=folder / "several.pte")


def make_images(n: int) -> Any:
    return np.random.default_rng(0).standard_normal((n, 3, 8, 8)).astype(np.float32)


def eager(seed: int, images: Any) -> Any:
    with torch.no_grad():
        return Net(seed).eval()(torch.from_numpy(images))["logits"].numpy()
