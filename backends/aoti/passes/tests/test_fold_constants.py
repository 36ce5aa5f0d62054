"""What depends on no input is computed while lowering."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from pteron.backends.aoti.passes.fold_constants import fold_constants
from pteron.exir.operators.decompositions import decompose, functionalize


class Applied(nn.Module):
    """`function` of a weight [64, 32], a table [9, 4], an index [8, 8] into it, and an input."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(64, 32))
        self.table = nn.Parameter(torch.randn(9, 64))
        self.register_buffer("index", torch.randint(0, 9, (8, 8)))
        self.register_buffer("bytes", torch.randint(-9, 9, (64, 32), dtype=torch.int8))
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def folded(module: nn.Module, x: torch.Tensor, **of: Any) -> tuple[ExportedProgram, set[str]]:
    """The program, and the operators that are left; results are the same bits."""
    program = decompose(functionalize(torch.export.export(module.eval(), (x,), **of)), ())
    expected = program.module(check_guards=False)(x)
    fold_constants(program)
    program.graph_module.graph.lint()
    assert torch.equal(program.module(check_guards=False)(x), expected)
    targets = {n.target for n in program.graph.nodes if n.op == "call_function"}
    names = {target.overloadpacket.__name__ for target in targets}
    return program, names - {"_assert_tensor_metadata"}


_X = torch.randn(8, 64)


@pytest.mark.parametrize(
    ("function", "left"),
    [
        # Adapters, scaled weights.
        (lambda m, x: x @ (m.weight + m.weight.sin() * 0.5), {"mm"}),
        # Relative position biases, whose table is smaller, and what is added to them.
        (lambda m, x: x.view(8, 1, 64) + (m.table[m.index].permute(1, 0, 2) + 1), {"view", "add"}),
        # Nothing but a view, a conversion or what is smaller than it.
        (lambda m, x: x @ m.weight.double().float(), {"_to_copy", "mm"}),
        (lambda m, x: x @ m.weight.view(32, 64).t(), {"view", "permute", "mm"}),
        # Integers, and few numbers.
        (lambda m, x: x[(torch.arange(2048) * 3) % 8], {"arange", "mul", "remainder", "index"}),
        (lambda m, x: x * m.table.sum(0), {"sum", "mul"}),
        # Quantized weights stay so.
        (lambda m, x: x @ (m.bytes.float() * 0.1), {"_to_copy", "mul", "mm"}),
        (lambda m, x: x * 0 + torch.zeros(64), {"mul", "full", "add"}),
    ],
)
def test_what_is_folded(function: Callable[..., torch.Tensor], left: set[str]) -> None:
    assert folded(Applied(function), _X)[1] == left


def test_large_results_of_small_constants_are_computed_at_each_call() -> None:
    model = Applied(lambda m, x: x.sum() + m.table.sin()[:, :, None].expand(9, 64, 4096) * 2)
    assert "mul" in folded(model, _X)[1]


@pytest.mark.parametrize("normalize", [weight_norm, spectral_norm])
def test_normalized_weights(normalize: Callable[[nn.Module], nn.Module]) -> None:
    program, left = folded(normalize(nn.Conv1d(32, 64, 3)), torch.randn(2, 32, 9))
    assert left == {"convolution"}
    (conv,) = program.graph.find_nodes(
        op="call_function", target=torch.ops.aten.convolution.default
    )
    assert conv.args[1].op == "placeholder"
    assert not any("original" in name for name in program.state_dict)


def test_what_depends_on_dynamic_sizes_stays() -> None:
    def positions(m: Applied, x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(x.shape[0])[:, None].float().sin()

    _, left = folded(Applied(positions), torch.randn(2000, 64), dynamic_shapes={"x": {0: Dim("n")}})
    assert "sin" in left


def test_buffers_that_the_model_writes_stay() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(2048))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scale = self.seen.cos()
            self.seen.add_(1)
            return x * scale

    program = functionalize(torch.export.export(Counts(), (torch.randn(2048),)))
    fold_constants(program)
    assert program.graph.find_nodes(op="call_function", target=torch.ops.aten.cos.default)


def test_results_of_the_model_stay() -> None:
    program = functionalize(torch.export.export(Applied(lambda m, x: m.weight.exp()), (_X,)))
    fold_constants(program)
    assert program.graph.find_nodes(op="call_function", target=torch.ops.aten.exp.default)
