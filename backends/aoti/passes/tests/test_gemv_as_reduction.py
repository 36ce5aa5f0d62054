"""GEMVs become reductions, where the weight is dequantized or narrow, and nothing else does."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from pteron.backends.aoti.passes.gemv_as_reduction import GemvAsReductionPass

_aten = torch.ops.aten
_MATMULS = (_aten.mm.default, _aten.addmm.default)


class ScaledAfter(nn.Module):
    """A scale for each output, after the matmul, as torchao does with int8."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight: torch.Tensor
        self.register_buffer("weight", torch.randint(-128, 128, (48, 64), dtype=torch.int8))
        self.scale = nn.Parameter(torch.rand(48, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, self.weight.t().to(x.dtype)) * self.scale


class Grouped(nn.Module):
    """A scale and a zero point for each 16 inputs, and a bias."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight: torch.Tensor
        self.zero: torch.Tensor
        self.register_buffer("weight", torch.randint(-8, 8, (48, 64), dtype=torch.int8))
        self.register_buffer("zero", torch.randint(-2, 3, (48, 4, 1), dtype=torch.int8))
        self.scale = nn.Parameter(torch.rand(48, 4, 1, dtype=dtype))
        self.bias = nn.Parameter(torch.rand(48, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        groups = self.weight.view(48, 4, 16).to(x.dtype) - self.zero.to(x.dtype)
        weight = (groups * self.scale).view(48, 64)
        return torch.addmm(self.bias, x, weight.t())


class Packed(nn.Module):
    """Two 4-bit values in a byte."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight: torch.Tensor
        self.register_buffer("weight", torch.randint(0, 256, (48, 64), dtype=torch.uint8))
        self.scale = nn.Parameter(torch.rand(48, 1, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = ((self.weight & 15).to(x.dtype) - 8) * self.scale
        high = ((self.weight >> 4).to(x.dtype) - 8) * self.scale
        return torch.mm(x, low.t()) + torch.mm(x, high.t())


def _matmuls(program: torch.export.ExportedProgram) -> int:
    return sum(node.target in _MATMULS for node in program.graph.nodes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", [ScaledAfter, Grouped, Packed])
def test_dequantized_weights(kind: Any, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    module, x = kind(dtype).eval(), torch.randn(1, 64, dtype=dtype)
    program = torch.export.export(module, (x,)).run_decompositions()
    outputs = program.graph_signature.user_outputs
    assert GemvAsReductionPass()(program.graph_module).modified
    assert _matmuls(program) == 0
    (output,) = (node for node in program.graph.nodes if node.op == "output")
    assert tuple(node.name for node in output.args[0]) == outputs
    found, expected = program.module()(x), module.double()(x.double())
    assert found.dtype == dtype
    error = (found.double() - expected).norm() / expected.norm()
    assert error < {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
    assert not GemvAsReductionPass()(program.graph_module).modified


def test_gemm_is_left_alone() -> None:
    module = ScaledAfter(torch.float32).eval()
    program = torch.export.export(module, (torch.randn(2, 64),)).run_decompositions()
    assert not GemvAsReductionPass()(program.graph_module).modified
    rows = torch.export.export(
        module, (torch.randn(2, 64),), dynamic_shapes=({0: Dim("rows", max=9)},)
    ).run_decompositions()
    assert not GemvAsReductionPass()(rows.graph_module).modified


class FloatWeight(nn.Module):
    """A small int8 tensor does not make a floating-point weight a dequantized one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.shift = nn.Parameter(torch.rand(48, 64)), torch.ones(64).to(torch.int8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x.relu(), (self.weight * self.shift.to(x.dtype)).t())


class RowMajorWeight(FloatWeight):
    """Columns are not contiguous."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, self.weight.view(64, 48))


@pytest.mark.parametrize(
    ("module", "max_columns", "rewritten"),
    [
        (FloatWeight(), 0, False),
        (FloatWeight(), 47, False),
        (FloatWeight(), 48, True),
        (RowMajorWeight(), 48, False),
    ],
)
def test_floating_point_weights(module: nn.Module, max_columns: int, rewritten: bool) -> None:
    x = torch.randn(1, 64)
    program = torch.export.export(module, (x,)).run_decompositions()
    assert GemvAsReductionPass(max_columns)(program.graph_module).modified == rewritten
    assert _matmuls(program) == (not rewritten)
    torch.testing.assert_close(program.module()(x), module(x))
