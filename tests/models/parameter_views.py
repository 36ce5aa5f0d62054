"""Models that read a part of a parameter, or one parameter under several names."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.models.cases import Applies, Case


class Attention(nn.Module):
    """nn.MultiheadAttention, whose projections are parts of one weight unless all inputs are one.

    Inputs are q; q and k (which is v too); or q, k and v.
    """

    def __init__(self, batch_first: bool, need_weights: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=batch_first)
        nn.init.normal_(self.attention.in_proj_bias)
        self.need_weights = need_weights

    def forward(self, q: torch.Tensor, *others: torch.Tensor) -> Any:
        k = others[0] if others else q
        output, weights = self.attention(
            q, k, others[-1] if others else q, need_weights=self.need_weights
        )
        return (output, weights) if self.need_weights else output


class OneStorage(nn.Module):
    """Parameters that are views of one flat tensor, as sharding and optimizers leave them."""

    def __init__(self) -> None:
        super().__init__()
        flat = torch.randn(32 * 40 + 40 + 40 * 24 + 24)
        up, bias, down, last = flat.split([32 * 40, 40, 40 * 24, 24])
        self.up, self.bias = nn.Parameter(up.view(40, 32)), nn.Parameter(bias)
        self.down, self.last = nn.Parameter(down.view(40, 24)), nn.Parameter(last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.up, self.bias).relu() @ self.down + self.last


class Tied(nn.Module):
    """An embedding whose table is also the weight of the last layer, and of a part of it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(48, 32), nn.Linear(32, 48, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.embedding(ids).tanh()
        return self.head(x), F.linear(x, self.embedding.weight[16:])


def _experts(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    for weight in p:
        x = F.linear(x, weight)
    return x


def _norm_and_bias(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    return F.linear(F.layer_norm(x, [32], p[1], p[2]), p[8:40], p[3])


_X = (24, 32)
_Q, _K = (2, 16, 32), (2, 20, 32)
_IDS = torch.tensor([[3, 1, 0, 7], [2, 2, 5, 6]])

#: Products, the operation that packs its weights. The first ones are what CUDA is tested with.
PRODUCTS = (
    Case("linear_from_row", lambda: Applies(lambda x, p: F.linear(x, p[32:]), 96, 32), (_X,)),
    Case("linear_transposed", lambda: Applies(lambda x, p: F.linear(x, p.t()[8:]), 32, 48), (_X,)),
    Case("right_columns", lambda: Applies(lambda x, p: x @ p[:, 32:], 32, 96), (_X,)),
    Case("linear_of_stack", lambda: Applies(lambda x, p: F.linear(x, p[1]), 3, 40, 32), (_X,)),
    Case("bmm_from", lambda: Applies(lambda x, p: torch.bmm(x, p[1:]), 3, 32, 32), ((2, 24, 32),)),
    Case("attention_two", lambda: Attention(True, False), (_Q, _K)),
    Case("linear_rows", lambda: Applies(lambda x, p: F.linear(x, p[32:64]), 96, 32), (_X,)),
    Case("linear_chunk", lambda: Applies(lambda x, p: F.linear(x, p.chunk(3)[2]), 96, 32), (_X,)),
    Case("linear_columns", lambda: Applies(lambda x, p: F.linear(x, p[:, 8:40]), 64, 48), (_X,)),
    Case("right_rows", lambda: Applies(lambda x, p: x @ p[16:48], 64, 48), (_X,)),
    Case("experts", lambda: Applies(_experts, 3, 32, 32), (_X,)),
    Case("linear_bias", lambda: Applies(lambda x, p: F.linear(x, p[:32], p[40]), 48, 32), (_X,)),
)

ATTENTION = (
    Case("one_weights", lambda: Attention(True, True), (_Q,)),
    Case("two_weights", lambda: Attention(True, True), (_Q, _K)),
    Case("two_sequence_first", lambda: Attention(False, False), ((16, 2, 32), (20, 2, 32))),
    Case("two_sequence_first_weights", lambda: Attention(False, True), ((16, 2, 32), (20, 2, 32))),
    Case("three", lambda: Attention(True, False), (_Q, _K, _K)),
    Case("three_weights", lambda: Attention(True, True), (_Q, _K, _K)),
    Case(
        "three_sequence_first",
        lambda: Attention(False, False),
        ((16, 2, 32), (20, 2, 32), (20, 2, 32)),
    ),
)

OTHERS = (
    Case(
        "conv2d", lambda: Applies(lambda x, p: F.conv2d(x, p[8:]), 24, 16, 1, 1), ((2, 16, 8, 8),)
    ),
    Case(
        "conv2d_3x3",
        lambda: Applies(lambda x, p: F.conv2d(x, p[8:], p[:16, 0, 0, 0]), 24, 16, 3, 3),
        ((2, 16, 8, 8),),
    ),
    Case(
        "patches",
        lambda: Applies(lambda x, p: F.conv2d(x, p[8:], stride=4), 24, 3, 4, 4),
        ((2, 3, 16, 16),),
    ),
    Case("conv1d", lambda: Applies(lambda x, p: F.conv1d(x, p[8:]), 24, 16, 3), ((2, 16, 12),)),
    Case("product", lambda: Applies(lambda x, p: x * p[1], 3, 24, 32), (_X,)),
    Case("embedding", lambda: Applies(lambda i, p: F.embedding(i, p[4:]), 12, 32), (_IDS,)),
    Case("layer_norm", lambda: Applies(_norm_and_bias, 40, 32), (_X,)),
    Case("one_storage", OneStorage, (_X,)),
    Case("tied", Tied, (_IDS,)),
)
