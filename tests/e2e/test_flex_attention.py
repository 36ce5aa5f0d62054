"""`flex_attention` as users write it: masks of documents, biases that read tensors, groups."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import pteron
from pteron.runtime import Runtime


class Biased(nn.Module):
    """A score function that reads a parameter; torch makes the mask in the model."""

    def __init__(self) -> None:
        super().__init__()
        self.slopes = nn.Parameter(torch.tensor([0.5, 0.25]))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        def bias(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return score - self.slopes[h] * (i - j).abs()

        return flex_attention(q, k, v, score_mod=bias)


class Documents(nn.Module):
    """No token sees another document, or what comes later; the first sees nothing at all."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.register_buffer("document", torch.arange(length) // 37)

        def mask(b: Any, h: Any, i: Any, j: Any) -> Any:
            return (self.document[i] == self.document[j]) & (i >= j) & (i > 0)

        self.mask = create_block_mask(mask, None, None, length, length, device="cpu")

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return flex_attention(q, k, v, block_mask=self.mask, enable_gqa=True)


class Table(nn.Module):
    """A bias by head and distance, from a table of two dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(2, 99))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        def bias(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return torch.tanh(score / 5) * 5 + self.table[h][i - j + 49]

        return flex_attention(q, k, v, score_mod=bias, scale=0.3)


def inputs(length: int, heads: int = 2) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(1, size, length, 16) for size in (heads, 2, 2))


@pytest.mark.parametrize(
    ("make", "args"),
    [
        (Biased, lambda: inputs(50)),
        (lambda: Documents(150), lambda: inputs(150, 4)),
        (Table, lambda: inputs(50)),
    ],
    ids=["biased", "documents", "table"],
)
def test_on_the_cpu(
    make: Callable[[], nn.Module], args: Callable[[], tuple[torch.Tensor, ...]], tmp_path: Path
) -> None:
    model, path = make().eval(), tmp_path / "model.pte"
    pteron.export(model, args(), path)
    method = Runtime.get().load_program(path).load_method("forward")
    given = args()
    torch.testing.assert_close(method(*given), model(*given))
