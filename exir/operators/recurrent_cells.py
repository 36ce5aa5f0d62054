"""Decompositions of the fused cells of `nn.GRUCell` and `nn.LSTMCell`, which torch calls on a GPU.

They compute in float32 where the tensors are narrower, as the fused kernels do. Their last result,
a workspace of the derivative, has no values.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

_Optional = torch.Tensor | None


def recurrent_cells() -> dict[OpOverload, Callable[..., Any]]:
    aten = torch.ops.aten
    return {
        aten._thnn_fused_gru_cell.default: _gru_cell,
        aten._thnn_fused_lstm_cell.default: _lstm_cell,
    }


def _gru_cell(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    hx: torch.Tensor,
    input_bias: _Optional = None,
    hidden_bias: _Optional = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    from_input = _biased(input_gates, input_bias).chunk(3, 1)
    from_hidden = _biased(hidden_gates, hidden_bias).chunk(3, 1)
    reset = torch.sigmoid(from_input[0] + from_hidden[0])
    update = torch.sigmoid(from_input[1] + from_hidden[1])
    new = torch.tanh(from_input[2] + reset * from_hidden[2])
    hy = new + update * (_wide(hx) - new)
    workspace = hx.new_empty((hx.shape[0], 5 * hx.shape[1]))
    return hy.to(hx.dtype), workspace


def _lstm_cell(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    cx: torch.Tensor,
    input_bias: _Optional = None,
    hidden_bias: _Optional = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    gates = _biased(input_gates, input_bias) + _biased(hidden_gates, hidden_bias)
    inner, forget, cell, outer = gates.chunk(4, 1)
    kept = torch.sigmoid(forget) * _wide(cx)
    cy = kept + torch.sigmoid(inner) * torch.tanh(cell)
    hy = torch.sigmoid(outer) * torch.tanh(cy)
    return hy.to(cx.dtype), cy.to(cx.dtype), torch.empty_like(input_gates)


def _biased(gates: torch.Tensor, bias: _Optional) -> torch.Tensor:
    return _wide(gates) if bias is None else _wide(gates) + bias


def _wide(value: torch.Tensor) -> torch.Tensor:
    return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value
