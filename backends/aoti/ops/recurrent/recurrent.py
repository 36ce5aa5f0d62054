"""The runtime's operator for the steps of one direction of a recurrent layer.

    out, c_n = recurrent_steps(input, weight, bias, projection, hx, cx, kind, reverse)

`recurrent.h` has the sizes. `input` is what the input of the layer adds to the gates. `kind` is
"lstm", "gru", "tanh" or "relu"; of others than "lstm", cx is None and c_n empty. The pass
`passes.recurrent` inserts calls of it.
"""

from typing import Any

import torch
import torch.nn.functional as F

from pteron.backends.aoti.ops.custom_operator import define


def step(
    kind: str,
    x: torch.Tensor,
    h: torch.Tensor,
    c: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    projection: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The next h and c, [batch, outputs] and [batch, units], from [batch, gates] of the input."""
    gates = F.linear(h, weight, bias)
    if kind == "lstm":
        i, f, g, o = (x + gates).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return h if projection is None else F.linear(h, projection), c
    if kind == "gru":
        (x_r, x_z, x_n), (h_r, h_z, h_n) = x.chunk(3, -1), gates.chunk(3, -1)
        n = (x_n + (x_r + h_r).sigmoid() * h_n).tanh()
        return (h - n) * (x_z + h_z).sigmoid() + n, c
    return (x + gates).tanh() if kind == "tanh" else (x + gates).relu(), c


def _compute(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    projection: torch.Tensor | None,
    hx: torch.Tensor,
    cx: torch.Tensor | None,
    kind: str,
    reverse: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    h, c = hx, input.new_empty(0) if cx is None else cx.clone()
    out = input.new_empty((*input.shape[:2], hx.shape[1]))
    steps = range(len(input))
    for i in reversed(steps) if reverse else steps:
        h, c = step(kind, input[i], h, c, weight, bias, projection)
        out[i] = h
    return out, c.contiguous()


def _shape(
    input: torch.Tensor, weight: Any, bias: Any, projection: Any, hx: torch.Tensor, cx: Any, *_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    out = input.new_empty((*input.shape[:2], hx.shape[1]))
    return out, input.new_empty((0,) if cx is None else cx.shape)


RECURRENT_STEPS = define(
    "recurrent_steps(Tensor input, Tensor weight, Tensor? bias, Tensor? projection, Tensor hx,"
    " Tensor? cx, str kind, bool reverse) -> (Tensor, Tensor)",
    _shape,
    _compute,
)
