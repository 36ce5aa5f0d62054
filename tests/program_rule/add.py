"""A model, as a build rule takes it."""

import torch


class Add(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


def build() -> object:
    return Add().eval(), (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]))
