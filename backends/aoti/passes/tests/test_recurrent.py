"""Recurrent layers become calls of the runtime, which compute what torch does."""

import itertools
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from pteron.backends.aoti.ops.recurrent.recurrent import RECURRENT_STEPS
from pteron.backends.aoti.passes.recurrent import UNROLLED_STEPS, RecurrentPass, whole_layers
from pteron.exir.operators.decompositions import decompose
from pteron.exir.operators.recurrent_layers import RECURRENT_LAYERS, whole_recurrent_layers


def lowered(
    model: nn.Module, inputs: tuple[Any, ...], dynamic_shapes: Any = None, is_loop: bool = False
) -> ExportedProgram:
    with whole_recurrent_layers():
        program = torch.export.export(model.eval(), inputs, dynamic_shapes=dynamic_shapes)
    program = decompose(program, RECURRENT_LAYERS)
    RecurrentPass(is_loop)(program.graph_module)
    assert not [n for n in program.graph.nodes if n.target in RECURRENT_LAYERS]
    return program


def calls(program: ExportedProgram) -> int:
    return sum(node.target is RECURRENT_STEPS for node in program.graph.nodes)


@pytest.mark.parametrize("is_bidirectional", [False, True])
@pytest.mark.parametrize("has_state", [False, True])
@pytest.mark.parametrize("bias, batch_first", [(True, False), (False, True)])
@pytest.mark.parametrize("kind", ["lstm", "projections", "gru", "tanh", "relu"])
def test_results_are_those_of_torch(
    kind: str, bias: bool, batch_first: bool, has_state: bool, is_bidirectional: bool
) -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = dict(
        num_layers=2, bias=bias, batch_first=batch_first, bidirectional=is_bidirectional
    )
    make: dict[str, Any] = {"lstm": nn.LSTM, "gru": nn.GRU}
    if kind == "projections":
        make[kind], options["proj_size"] = nn.LSTM, 3
    elif kind in ("tanh", "relu"):
        make[kind], options["nonlinearity"] = nn.RNN, kind
    model = make[kind](4, 6, **options)
    inputs: list[Any] = [torch.randn(5, 5, 4)]
    if has_state:
        out, last = model(*inputs)
        state = pytree.tree_map(torch.randn_like, last)
        inputs.append(state)
    program = lowered(model, tuple(inputs))
    assert calls(program) == 2 * (1 + is_bidirectional)
    torch.testing.assert_close(program.module()(*inputs), model(*inputs))


@pytest.mark.parametrize(
    "dtype, bound", [(torch.float64, 1e-12), (torch.bfloat16, 1e-2), (torch.float16, 1e-3)]
)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_dtypes(kind: type[nn.Module], dtype: torch.dtype, bound: float) -> None:
    torch.manual_seed(0)
    model = kind(4, 6, bidirectional=True).to(dtype)
    x = torch.randn(5, 2, 4).to(dtype)
    found = pytree.tree_leaves(lowered(model, (x,)).module()(x))
    exact = pytree.tree_leaves(model.double()(x.double()))
    assert {each.dtype for each in found} == {dtype}
    for one, expected in zip(found, exact, strict=True):
        torch.testing.assert_close(one.double(), expected, rtol=0, atol=bound)


def test_dynamic_steps_and_batches() -> None:
    model = nn.LSTM(4, 6, num_layers=2, bidirectional=True, batch_first=True)
    shapes = ({0: Dim("batch", max=9), 1: Dim("steps", max=99)},)
    program = lowered(model, (torch.randn(2, 5, 4),), shapes)
    assert len(program.graph.nodes) < 150
    for sizes in itertools.product((1, 3), (1, 50)):
        x = torch.randn(*sizes, 4)
        torch.testing.assert_close(program.module()(x), model(x))


def test_of_a_branch() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(4, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def run(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
                options = (True, 1, 0.0, False, False, False)
                return torch.gru(x, x.new_zeros(1, 2, 6), list(weights), *options)[0]

            operands = (x, *self.gru.parameters())
            return torch.cond(x.sum() > 0, run, lambda x, *w: run(x.neg(), *w) * 2, operands)

    model = Branches()
    program = lowered(model, (torch.ones(5, 2, 4),))
    for sign in (1, -1):
        x = sign * torch.rand(5, 2, 4)
        torch.testing.assert_close(program.module()(x), model(x))


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("kind", ["lstm", "projections", "gru", "tanh"])
def test_loops(kind: str, is_dynamic: bool) -> None:
    torch.manual_seed(0)
    model = {
        "lstm": nn.LSTM(4, 6, bidirectional=True),
        "projections": nn.LSTM(4, 6, proj_size=3, bias=False),
        "gru": nn.GRU(4, 6, num_layers=2),
        "tanh": nn.RNN(4, 6, bidirectional=True),
    }[kind]
    shapes = ({0: Dim("steps", max=99), 1: Dim("batch", max=9)},) if is_dynamic else None
    program = lowered(model, (torch.randn(5, 2, 4),), shapes, is_loop=True)
    assert calls(program) == 0
    scans = [n for n in program.graph.nodes if n.target is torch.ops.higher_order.scan]
    assert len(scans) == 1 + (kind != "projections")
    for sizes in [(5, 2), (1, 3), (40, 1)] if is_dynamic else [(5, 2)]:
        x = torch.randn(*sizes, 4)
        with torch.no_grad():
            torch.testing.assert_close(program.module()(x), model(x))


def test_operands_of_a_loop_share_no_storage() -> None:
    """The weights of a layer on a GPU do, in the one that cuDNN wants."""
    model = nn.LSTM(4, 6, proj_size=3)
    whole = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    parts = whole.split([weight.numel() for weight in model.parameters()])
    for weight, part in zip(model.parameters(), parts, strict=True):
        weight.data = part.view(weight.shape)
    program = lowered(model, (torch.randn(5, 2, 4),), is_loop=True)
    (loop,) = program.graph.find_nodes(op="call_function", target=torch.ops.higher_order.scan)
    storages = [operand.meta["val"].untyped_storage()._cdata for operand in loop.args[3]]
    assert len(storages) > 2 and len(set(storages)) == len(storages)


def test_layers_that_stay_whole() -> None:
    model = nn.Sequential(nn.LSTM(4, 4))

    def kept(steps: int, device: str, shims: tuple[str, ...] = ()) -> int:
        program = torch.export.export(model, (torch.randn(steps, 2, 4),))
        return len(whole_layers(program, device, shims))

    assert kept(5, "cpu", ("aoti_torch_cpu_recurrent_steps",)) == len(RECURRENT_LAYERS)
    assert kept(UNROLLED_STEPS, "cuda") == 0
    assert kept(UNROLLED_STEPS + 1, "cuda") == 1
    assert kept(UNROLLED_STEPS + 1, "mps") == 0
