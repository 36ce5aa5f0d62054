"""LSTM, GRU and RNN that stay whole in a program are traced by their shapes alone.

    with whole_recurrent_layers():
        program = torch.export.export(model, args, dynamic_shapes=...)

torch finds the shapes of their results by their decomposition, step by step. That takes the longer
the more steps there are, and makes a dynamic number of steps constant.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch._decomp import decomposition_table, decompositions
from torch._ops import OpOverload
from torch.fx.experimental.proxy_tensor import get_proxy_mode

_aten = torch.ops.aten
#: The operators of whole layers, by the kind of layer.
RECURRENT_LAYERS: dict[OpOverload, str] = {
    _aten.lstm.input: "lstm",
    _aten.gru.input: "gru",
    _aten.rnn_tanh.input: "tanh",
    _aten.rnn_relu.input: "relu",
}

#: The tables are the process's.
_LOCK = threading.RLock()
_KEY = torch._C.DispatchKey.CompositeImplicitAutograd


@contextlib.contextmanager
def whole_recurrent_layers(ops: Iterable[OpOverload] = RECURRENT_LAYERS) -> Iterator[None]:
    """Inside, those of `ops` that are recurrent layers are traced by their shapes.

    One thread is inside at a time, others wait.
    """
    layers = [op for op in ops if op in RECURRENT_LAYERS]
    one_layer = functools.partial(_one_layer, decompositions.one_layer_lstm)
    patched = mock.patch.object(decompositions, "one_layer_lstm", one_layer)
    with _LOCK, patched, contextlib.ExitStack() as stack:
        for op in layers:
            shapes = functools.partial(_shapes, decomposition_table[op])
            before: Any = decomposition_table[op], op.py_kernels[_KEY]
            stack.callback(decomposition_table.__setitem__, op, before[0])
            stack.callback(op.py_kernels.__setitem__, _KEY, before[1])
            decomposition_table[op] = op.py_kernels[_KEY] = shapes
            stack.callback(op._dispatch_cache.clear)
            op._dispatch_cache.clear()
        yield


def _one_layer(decomposition: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """torch 2.12 leaves the states of an LSTM's layer a dimension of size 1."""
    out, states = decomposition(*args, **kwargs)
    return out, tuple(
        state.reshape(state.shape[-2:]) if state.dim() == 3 else state for state in states
    )


def _shapes(
    decomposition: Callable[..., Any],
    input: torch.Tensor,
    hx: torch.Tensor | Sequence[torch.Tensor],
    params: Sequence[torch.Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """Results with the shapes and strides of the decomposition, which is what a tracer gets."""
    if get_proxy_mode() is not None:
        options = (has_biases, num_layers, dropout, train, bidirectional, batch_first)
        return decomposition(input, hx, params, *options)
    states = [hx] if isinstance(hx, torch.Tensor) else hx
    steps, batch = input.shape[:2] if not batch_first else (input.shape[1], input.shape[0])
    out = input.new_empty((steps, batch, states[0].shape[2] * (2 if bidirectional else 1)))
    last = (state.new_empty(state.shape) for state in states)
    return (out.transpose(0, 1) if batch_first else out, *last)
