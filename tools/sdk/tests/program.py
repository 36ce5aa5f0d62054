"""A model whose results need OpenBLAS, a generated kernel and constants."""

import torch


class Classifier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 128)
        self.second = torch.nn.Linear(128, 4)
        for index, parameter in enumerate(self.parameters()):
            values = torch.arange(parameter.numel(), dtype=torch.float32)
            parameter.data = (torch.sin(values + index) / 8).reshape(parameter.shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.second(torch.relu(self.first(x))), dim=-1)


def build() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return Classifier().eval(), (torch.ones(2, 64),)
