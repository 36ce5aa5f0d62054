"""A batch of none gives results of none where a program takes any number; later calls are right."""

import pathlib

import torch
from torch import nn
from torch.export import Dim

from tests.e2e.lowering import lower_to_file
from tests.models.sample import max_relative_error, randn


class Batches(nn.Module):
    """Products, products in batches, products of bfloat16, and convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.head = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 10))
        self.narrow = nn.Linear(32, 64).bfloat16()
        self.image = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU6(), nn.Conv2d(16, 8, 1))

    def forward(self, x: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        encoded = self.encoder(x)
        pooled = encoded.mean(1)
        return encoded, self.head(pooled), self.narrow(pooled.bfloat16()).float(), self.image(image)


def test_a_batch_of_none(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    model = Batches().eval()

    def inputs(batch: int) -> tuple[torch.Tensor, ...]:
        return randn(batch, batch, 6, 32), randn(batch + 1, batch, 3, 8, 8)

    batch = Dim("batch", min=0, max=64)
    exported = torch.export.export(model, inputs(8), dynamic_shapes=({0: batch}, {0: batch}))
    method = lower_to_file(exported, tmp_path / "model.pte").load_method("forward")
    for size in (3, 0, 8, 0, 1):
        with torch.no_grad():
            expected = model(*inputs(size))
        found = method.execute(inputs(size))
        for index, (one, reference) in enumerate(zip(found, expected, strict=True)):
            assert one.shape == reference.shape
            assert max_relative_error(one, reference) <= (1e-2 if index == 2 else 1e-5)
