"""Convolutions that become one operator with what follows them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim, ExportedProgram, export

from pteron.backends.aoti.ops.convolution.convolution import CONVOLUTION, FUSED_CONVOLUTION
from pteron.backends.aoti.passes.fuse_convolutions import fuse_convolutions, has_fused_convolutions
from pteron.exir.operators.decompositions import decompose, functionalize


class Model(nn.Module):
    """`follow` gets a convolution, a tensor like its result, and the input."""

    def __init__(self, follow: Callable[..., torch.Tensor], channels: int = 4, **of: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 8, 3, padding=1, **of)
        self.follow = follow

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.follow(self.conv, x, y)


def program_of(module: nn.Module, *inputs: torch.Tensor) -> ExportedProgram:
    return decompose(functionalize(export(module.eval(), inputs)), ())


def calls(program: ExportedProgram, op: torch._ops.OpOverload) -> list[torch.fx.Node]:
    return list(program.graph.find_nodes(op="call_function", target=op))


def fused(model: nn.Module, channels: int = 4) -> list[tuple[bool, bool, bool]]:
    """Which of bias, residual, relu each fused convolution has; results are those of `model`."""
    inputs = torch.randn(2, channels, 6, 5), torch.randn(2, 8, 6, 5)
    program = program_of(model, *inputs)
    (name,) = program.graph_signature.user_outputs
    fuse_convolutions(program, lambda conv: True)
    program.graph_module.graph.lint()
    (result,) = program.graph.output_node().args[0]  # type: ignore[misc]
    assert isinstance(result, torch.fx.Node) and result.name == name
    torch.testing.assert_close(program.module(check_guards=False)(*inputs), model(*inputs))
    found = calls(program, FUSED_CONVOLUTION)
    assert has_fused_convolutions(program.graph_module) == bool(found)
    return [(c.args[2] is not None, c.args[3] is not None, bool(c.args[8])) for c in found]


@pytest.mark.parametrize(
    ("follow", "expected"),
    [
        (lambda conv, x, y: conv(x), (True, False, False)),
        (lambda conv, x, y: F.relu(conv(x)), (True, False, True)),
        (lambda conv, x, y: conv(x) + y, (True, True, False)),
        (lambda conv, x, y: F.relu(y + conv(x)), (True, True, True)),
        (lambda conv, x, y: F.relu(conv(x)) + y, (True, False, True)),
        # What is not the same in every element, or counted more than once, is left alone.
        (lambda conv, x, y: F.relu(conv(x) + y[:, :, :1]), (True, False, False)),
        (lambda conv, x, y: F.relu(torch.add(conv(x), y, alpha=2)), (True, False, False)),
        (lambda conv, x, y: (c := conv(x)) + F.relu(c), (True, False, False)),
        (lambda conv, x, y: (c := conv(x)) + c, (True, False, False)),
    ],
)
def test_what_follows_is_taken_in(
    follow: Callable[..., torch.Tensor], expected: tuple[bool, bool, bool]
) -> None:
    assert fused(Model(follow)) == [expected]


def test_dynamic_sizes() -> None:
    inputs = torch.randn(2, 4, 6, 5), torch.randn(2, 8, 6, 5)
    sizes = {0: Dim("batch"), 2: Dim("height")}
    model = Model(lambda conv, x, y: F.relu(conv(x) + y)).eval()
    program = decompose(functionalize(export(model, inputs, dynamic_shapes=(sizes, sizes))), ())
    fuse_convolutions(program, lambda conv: True)
    (call,) = calls(program, FUSED_CONVOLUTION)
    assert call.args[3] is not None
    more = torch.randn(3, 4, 9, 5), torch.randn(3, 8, 9, 5)
    torch.testing.assert_close(program.module(check_guards=False)(*more), model(*more))


def test_two_convolutions_that_are_added() -> None:
    def follow(conv: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.relu(conv(x) + conv(x + 1))

    assert sorted(fused(Model(follow))) == [(True, False, False), (True, True, True)]


def test_bare_and_transposed_ones_stay() -> None:
    assert fused(Model(lambda conv, x, y: conv(x), bias=False)) == []

    class Transposed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.ConvTranspose2d(4, 8, 3)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.relu(self.conv(x))

    assert fused(Transposed()) == []


def test_the_choice_is_the_callers() -> None:
    program = program_of(Model(lambda conv, x, y: F.relu(conv(x))), *map(torch.randn, _SIZES))
    fuse_convolutions(program, lambda conv: False)
    assert calls(program, CONVOLUTION) and not calls(program, FUSED_CONVOLUTION)


_SIZES = (2, 4, 6, 5), (2, 8, 6, 5)


def test_weights_lie_channels_last() -> None:
    program = program_of(Model(lambda conv, x, y: conv(x)), *map(torch.randn, _SIZES))
    fuse_convolutions(program, lambda conv: True)
    (weight,) = (t for t in program.state_dict.values() if t.dim() == 4)
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert not weight.is_contiguous()


@pytest.mark.parametrize(("channels", "packed"), [(2, 2), (3, 4), (4, 4), (6, 8), (9, 9)])
def test_few_channels_are_made_a_pack(channels: int, packed: int) -> None:
    model = Model(lambda conv, x, y: F.relu(conv(x)), channels=channels)
    assert fused(model, channels=channels) == [(True, False, True)]
    program = program_of(model, torch.randn(2, channels, 6, 5), torch.randn(2, 8, 6, 5))
    fuse_convolutions(program, lambda conv: True)
    (call,) = calls(program, FUSED_CONVOLUTION)
    shapes = [argument.meta["val"].shape[1] for argument in call.args[:2]]  # type: ignore[union-attr]
    assert shapes == [packed, packed]
