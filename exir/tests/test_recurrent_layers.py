"""Recurrent layers that stay whole: shapes, dynamic numbers of steps, and decomposing anyway."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from pteron.exir.operators.decompositions import decompose, run_decompositions
from pteron.exir.operators.recurrent_layers import RECURRENT_LAYERS, whole_recurrent_layers

LAYERS = {
    "lstm": nn.LSTM(3, 5, num_layers=2, bidirectional=True),
    "lstm_projections": nn.LSTM(3, 5, proj_size=2, batch_first=True),
    "gru": nn.GRU(3, 5, num_layers=2, batch_first=True, bidirectional=True),
    "tanh": nn.RNN(3, 5),
    "relu": nn.RNN(3, 5, nonlinearity="relu", bidirectional=True),
}


class Layer(nn.Module):
    """A layer and what follows of its results, whose sizes depend on the number of steps."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> Any:
        out, last = self.layer(x)
        return out.flip(0) * 2, out.sum((0, 1)), last


def layer_node(program: torch.export.ExportedProgram) -> torch.fx.Node:
    (node,) = (n for n in program.graph.nodes if n.target in RECURRENT_LAYERS)
    return node


def described(values: Sequence[torch.Tensor]) -> list[Any]:
    return [(x.dtype, x.shape, x.stride()) for x in values]


@pytest.mark.parametrize("name", LAYERS)
def test_shapes_are_those_of_the_decomposition(name: str) -> None:
    model, x = Layer(LAYERS[name]).eval(), torch.randn(4, 6, 3)
    with whole_recurrent_layers(()):  # torch's decomposition, less the bug that 2.12 has in it
        expected = layer_node(torch.export.export(model, (x,))).meta["val"]
    with whole_recurrent_layers():
        program = torch.export.export(model, (x,))
    assert described(layer_node(program).meta["val"]) == described(expected)
    torch.testing.assert_close(program.module()(x), model(x))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_steps_and_batches_are_dynamic(name: str, strict: bool) -> None:
    model = Layer(LAYERS[name]).eval()
    shapes = ({0: Dim("a", max=64), 1: Dim("b", max=64)},)
    with whole_recurrent_layers(), torch._dynamo.config.patch(allow_rnn=True):
        program = torch.export.export(
            model, (torch.randn(4, 6, 3),), dynamic_shapes=shapes, strict=strict
        )
    for kept in (program, run_decompositions(program, {}), decompose(program, RECURRENT_LAYERS)):
        assert not any(isinstance(n, int) for n in layer_node(kept).meta["val"][0].shape[:2])
    for sizes in ((1, 1), (9, 2), (2, 7)):
        x = torch.randn(*sizes, 3)
        torch.testing.assert_close(program.module()(x), model(x))


def test_a_graph_has_one_node_for_a_thousand_steps() -> None:
    model = Layer(LAYERS["lstm"]).eval()
    with whole_recurrent_layers():
        program = torch.export.export(model, (torch.randn(1000, 1, 3),))
    assert len(decompose(program, RECURRENT_LAYERS).graph.nodes) < 50


@pytest.mark.parametrize("name", LAYERS)
def test_decomposing_is_as_it_was(name: str) -> None:
    model, x = Layer(LAYERS[name]).eval(), torch.randn(4, 6, 3)
    with whole_recurrent_layers():
        program = decompose(torch.export.export(model, (x,)), ())
        again = torch.export.export(model, (x,)).run_decompositions()
    for decomposed in (program, again):
        assert not [n for n in decomposed.graph.nodes if n.target in RECURRENT_LAYERS]
        torch.testing.assert_close(decomposed.module()(x), model(x))


def test_torch_is_as_before_after_it() -> None:
    before = {op: dict(op.py_kernels) for op in RECURRENT_LAYERS}
    with whole_recurrent_layers():
        assert {op: dict(op.py_kernels) for op in RECURRENT_LAYERS} != before
    assert {op: dict(op.py_kernels) for op in RECURRENT_LAYERS} == before
