"""Lowers a program with Pteron's Python package; asks an extension module for a name."""

import _errors
import torch

from exir import to_edge_transform_and_lower


class Add(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


def main() -> None:
    program = torch.export.export(Add(), (torch.ones(2), torch.ones(2)))
    file = to_edge_transform_and_lower(program).to_executorch()
    print(bytes(file.buffer[4:8]).decode(), _errors.name(0x20))


if __name__ == "__main__":
    main()
