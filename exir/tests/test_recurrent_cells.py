"""The fused cells of a GPU are those of nn.GRUCell and nn.LSTMCell."""

import pytest
import torch
from torch import nn
from torch.nn.functional import linear

from pteron.exir.operators.decompositions import decomposition_table

X, H, C = torch.randn(3, 5), torch.randn(3, 4), torch.randn(3, 4)


def gates(cell: nn.RNNCellBase, *, bias: bool) -> tuple[torch.Tensor, ...]:
    """What a GPU's cell is given, with biases or with these added before."""
    biases = (cell.bias_ih, cell.bias_hh)
    added = (None, None) if bias else biases
    given = linear(X, cell.weight_ih, added[0]), linear(H, cell.weight_hh, added[1])
    return (*given, *(biases if bias else (None, None)))


@pytest.mark.parametrize("bias", [True, False])
def test_gru(bias: bool) -> None:
    cell = nn.GRUCell(5, 4)
    fused = decomposition_table()[torch.ops.aten._thnn_fused_gru_cell.default]
    first, second, *biases = gates(cell, bias=bias)
    found, workspace = fused(first, second, H, *biases)
    torch.testing.assert_close(found, cell(X, H))
    assert workspace.shape == (3, 20)


@pytest.mark.parametrize("bias", [True, False])
def test_lstm(bias: bool) -> None:
    cell = nn.LSTMCell(5, 4)
    fused = decomposition_table()[torch.ops.aten._thnn_fused_lstm_cell.default]
    first, second, *biases = gates(cell, bias=bias)
    *found, workspace = fused(first, second, C, *biases)
    torch.testing.assert_close(tuple(found), cell(X, (H, C)))
    assert workspace.shape == (3, 16)


def test_half_is_computed_in_float() -> None:
    cell = nn.GRUCell(5, 4)
    fused = decomposition_table()[torch.ops.aten._thnn_fused_gru_cell.default]
    first, second, *biases = (value.half() for value in gates(cell, bias=True))
    found = fused(first, second, H.half(), *biases)[0]
    assert found.dtype == torch.float16
    torch.testing.assert_close(found.float(), cell(X, H), rtol=2e-3, atol=2e-3)
