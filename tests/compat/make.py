"""Writes programs of today to a new folder: what later versions must load and compute.

    tools/bazel run //tests/compat:make -- $PWD/tests/compat/files/2026-11-26

On a machine with a GPU it writes a program of the GPU, too. Then add the files to SHA256SUMS. They
are never written again: a change that breaks one is a bug (docs/compatibility.md).
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import pteron
from pteron.runtime import Runtime


@dataclass
class Case:
    """A program, its inputs (those of several calls, one after the other), and its options."""

    model: Any
    calls: Sequence[tuple[torch.Tensor, ...]]
    dynamic_shapes: Any = None
    constants: dict[str, Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    backend: str = "cpu"


class Layers(nn.Module):
    """A convolution, a matmul and a reduction."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(2, 4, 3, padding=1)
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(torch.relu(self.convolution(x)).mean((2, 3))).softmax(-1)


class Counter(nn.Module):
    """State, which the model writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.ones(3))

    total: torch.Tensor

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.total.add_(x)
        return self.total * 2, x.cumsum(0)


class Decides(nn.Module):
    """Branches, integers and bools."""

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
        return rows[index], rows > 1, index.flip(0)


class Attention(nn.Module):
    """With dynamic sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.projection(x).chunk(3, -1)
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def cases() -> Iterator[tuple[str, Case]]:
    torch.manual_seed(0)
    images = [(torch.randn(2, 2, 5, 7),), (torch.randn(2, 2, 5, 7),)]
    layers = Layers().eval()
    yield "layers", Case(layers, images, constants={"labels": ["a", "b", "c"], "mean": 0.5})
    shared = {"cpu.weights": "shared", "cpu.save_data_externally": True}
    yield "data_file", Case(layers, images, options=shared)
    yield "state", Case(Counter().eval(), [(torch.randn(3),) for _ in range(3)])
    index = torch.tensor([2, 0, 1, 1])
    calls = [(torch.rand(3, 4), index), (-torch.rand(3, 4), index)]
    yield "branches", Case(Decides().eval(), calls)
    length = torch.export.Dim("length", min=1, max=16)
    batch = [(torch.randn(2, n, 8),) for n in (5, 1, 16)]
    yield "attention", Case(Attention().eval(), batch, dynamic_shapes=({1: length},))
    if torch.cuda.is_available():
        example = tuple(value.cuda() for value in images[0])
        yield "cuda", Case(Layers().eval().cuda(), [example, images[1]], backend="cuda")


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, case in cases():
        path = folder / f"{name}.pte"
        pteron.export(
            case.model,
            case.calls[0],
            path,
            dynamic_shapes=case.dynamic_shapes,
            constant_methods=case.constants,
            backend=case.backend,
            options=case.options,
        )
        program = Runtime.get().load_program(path, data_path=sorted(folder.glob(f"{name}*.ptd")))
        method = program.load_method("forward")
        arrays: dict[str, Any] = {}
        for number, inputs in enumerate(case.calls):
            arrays |= {f"{number}/in/{i}": value.cpu().numpy() for i, value in enumerate(inputs)}
            for i, value in enumerate(method.execute([value.cpu() for value in inputs])):
                arrays[f"{number}/out/{i}"] = torch.from_dlpack(value).numpy().copy()
        np.savez_compressed(path.with_suffix(".npz"), **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
