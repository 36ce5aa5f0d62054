"""GEMMs with dequantized weights become int8 or int4 weight-only GEMM, and nothing else does."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from pteron.backends.aoti.ops.quantized_mm import QUANTIZED_MM, Packing, pack, unpack
from pteron.backends.aoti.ops.quantized_mma import quantized_mma
from pteron.backends.aoti.passes.quantized_gemm import (
    pack_for_tensor_cores,
    pack_quantized_weights,
)
from pteron.backends.aoti.passes.remove_metadata_asserts import RemoveMetadataAssertsPass

_aten = torch.ops.aten
_FLOATS = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("columns", [31, 64])
@pytest.mark.parametrize("packing", [(8, 0, False), (8, 32, True), (4, 16, False), (4, 32, True)])
def test_layout(packing: tuple[int, int, bool], columns: int) -> None:
    torch.manual_seed(0)
    packed = Packing(columns, *packing)
    half = 1 << (packed.bits - 1)
    values = torch.randint(-half, half, (96, columns)).to(torch.int8)
    groups = 96 // (packed.group_size or 96)
    scale = torch.rand(groups, columns) if packed.group_size else None
    zero_point = torch.rand(groups, columns) if packed.has_zero_point else None
    data = pack(values, packed, scale, zero_point)
    assert data.shape == (-(-columns // 32), 96, packed.row_bytes) and data.dtype == torch.uint8
    expected = values.float()
    for parameter, apply in ((scale, torch.mul), (zero_point, torch.add)):
        if parameter is not None:
            expected = apply(expected, parameter.repeat_interleave(packed.group_size, 0))
    assert torch.equal(unpack(data, packed), expected)


class Plain(nn.Module):
    """A scale for each output, after the matmul, as torchao does with int8."""

    def __init__(self, rows: int = 96) -> None:
        super().__init__()
        self.weight: torch.Tensor
        self.register_buffer("weight", torch.randint(-128, 128, (48, rows), dtype=torch.int8))
        self.scale = nn.Parameter(torch.rand(48))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, self.weight.t().to(x.dtype)) * self.scale


class Grouped(nn.Module):
    """A scale and a zero point for each `group` inputs, and a bias."""

    def __init__(
        self, low: int, high: int, group: int, zero: int, dtype: torch.dtype, rows: int = 96
    ) -> None:
        super().__init__()
        self.weight: torch.Tensor
        self.zero: torch.Tensor
        self.group = group
        self.register_buffer("weight", torch.randint(low, high, (48, rows)).to(dtype))
        zeros = (
            torch.full((48, rows // group, 1), zero) + torch.arange(48).view(-1, 1, 1) % 2 * zero
        )
        self.register_buffer("zero", zeros.to(dtype))
        self.scale = nn.Parameter(torch.rand(48, rows // group, 1))
        self.bias = nn.Parameter(torch.rand(48))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        groups = self.weight.view(48, -1, self.group).to(x.dtype) - self.zero.to(x.dtype)
        return torch.addmm(self.bias, x, (groups * self.scale).flatten(1).t())


class Channels(nn.Module):
    """A scale for each output, before the matmul."""

    def __init__(self, rows: int = 96) -> None:
        super().__init__()
        self.weight: torch.Tensor
        self.register_buffer("weight", torch.randint(-128, 128, (48, rows), dtype=torch.int8))
        self.scale = nn.Parameter(torch.rand(48, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, (self.weight.to(x.dtype) * self.scale).t())


class Lifted(Channels):
    """The scale has a dimension more than the weight."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, (self.scale[None] * self.weight.to(x.dtype)).view(48, 96).t())


class TwoInAByte(nn.Module):
    """Two 4-bit values in a byte."""

    def __init__(self, rows: int = 96) -> None:
        super().__init__()
        self.weight: torch.Tensor
        self.register_buffer("weight", torch.randint(0, 256, (48, rows), dtype=torch.uint8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, ((self.weight & 15).to(x.dtype) - 8).t())


class Wrapping(Plain):
    """Bytes are added as bytes are."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, (self.weight + self.weight[:, :1]).t().to(x.dtype))


_KINDS = {
    "lifted": (Lifted, (), Packing(48, 8, 32)),
    "plain": (Plain, (), Packing(48)),
    "int8": (Grouped, (-128, 128, 32, 0, torch.int8), Packing(48, 8, 32)),
    "int8_zero": (Grouped, (-128, 128, 16, 3, torch.int8), Packing(48, 8, 16, True)),
    "int4": (Grouped, (-8, 8, 48, 0, torch.int8), Packing(48, 4, 16)),
    "uint8": (Grouped, (0, 256, 32, 100, torch.uint8), Packing(48, 8, 32, True)),
    "uint4": (Grouped, (0, 16, 32, 4, torch.uint8), Packing(48, 4, 32, True)),
    "uint4_middle": (Grouped, (0, 16, 32, 0, torch.uint8), Packing(48, 4, 32, True)),
    "channels": (Channels, (), Packing(48, 8, 32)),
    "two_in_a_byte": (TwoInAByte, (), Packing(48, 4, 32)),
    "wrapping": (Wrapping, (), Packing(48)),
}


@pytest.mark.parametrize("dtype", _FLOATS)
@pytest.mark.parametrize("kind", _KINDS)
def test_kinds(kind: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    make, arguments, packing = _KINDS[kind]
    module, x = make(*arguments).eval().to(dtype), torch.randn(5, 96, dtype=dtype)
    program = torch.export.export(
        module, (x,), dynamic_shapes=({0: Dim("rows", max=9)},)
    ).run_decompositions()
    RemoveMetadataAssertsPass()(program.graph_module)
    outputs = program.graph_signature.user_outputs
    pack_quantized_weights(program)
    (node,) = program.graph.find_nodes(op="call_function", target=QUANTIZED_MM)
    assert node.args[2:] == dataclasses.astuple(packing)
    assert not [
        n for n in program.graph.nodes if n.target in (_aten.mm.default, _aten.addmm.default)
    ]
    assert program.graph_signature.user_outputs == outputs
    assert "weight" not in program.state_dict
    found, expected = program.module()(x), module.double()(x.double())
    assert found.dtype == dtype
    error = (found.double() - expected).norm() / expected.norm()
    assert error < {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]


class Uneven(Channels):
    """Rows of the weight, too, have a scale each."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(96))


class Few(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight: torch.Tensor
        self.register_buffer("weight", torch.randint(0, 9, (16, 96), dtype=torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, self.weight.t().to(x.dtype))


class Computed(Plain):
    """What is added depends on the input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, (self.weight.to(x.dtype) + x.mean()).t())


_OTHERS = [(Uneven, 5), (Few, 5), (Computed, 5), (Plain, 0)]


@pytest.mark.parametrize(("make", "rows"), _OTHERS)
def test_others_stay(make: type[nn.Module], rows: int) -> None:
    program = torch.export.export(make().eval(), (torch.randn(rows, 96),)).run_decompositions()
    before = str(program.graph)
    pack_quantized_weights(program)
    assert str(program.graph) == before


_TENSOR_CORE_KINDS = {
    "plain": (Plain, (), torch.int8),
    "int8": (Grouped, (-128, 128, 32, 0, torch.int8), torch.int8),
    "int8_zero": (Grouped, (-128, 128, 64, 3, torch.int8), torch.int8),
    "int4": (Grouped, (-8, 8, 32, 0, torch.int8), torch.uint8),
    "uint4": (Grouped, (0, 16, 64, 4, torch.uint8), torch.uint8),
    "channels": (Channels, (), torch.int8),
    "two_in_a_byte": (TwoInAByte, (), torch.uint8),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", _TENSOR_CORE_KINDS)
def test_tensor_cores(kind: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    make, arguments, stored = _TENSOR_CORE_KINDS[kind]
    module, x = make(*arguments, rows=192).eval().to(dtype), torch.randn(5, 192, dtype=dtype)
    program = torch.export.export(
        module, (x,), dynamic_shapes=({0: Dim("rows", max=9)},)
    ).run_decompositions()
    RemoveMetadataAssertsPass()(program.graph_module)
    pack_for_tensor_cores(program)
    program.validate()
    (node,) = program.graph.find_nodes(op="call_function", target=quantized_mma.QUANTIZED_MMA)
    assert node.args[1].meta["val"].dtype == stored
    assert "weight" not in program.state_dict
    found, expected = program.module()(x), module.double()(x.double())
    error = (found.double() - expected).norm() / expected.norm()
    assert error < {torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]


class Several(nn.Module):
    """GEMMs of one operand, of 48 and 24 columns, two with other groups."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            [Plain(192), Plain(192), Grouped(-128, 128, 64, 0, torch.int8, 192)]
        )
        self.other = Grouped(-8, 8, 64, 0, torch.int8, 192)
        self.parts[1].weight = self.parts[1].weight[:24]
        self.parts[1].scale = nn.Parameter(self.parts[1].scale[:24])

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [part(x.view(-1, 192)) for part in [*self.parts, self.other]]


def test_gemms_of_one_operand_are_joined() -> None:
    torch.manual_seed(0)
    module, x = Several().eval().bfloat16(), torch.randn(1, 5, 192, dtype=torch.bfloat16)
    program = torch.export.export(module, (x,)).run_decompositions()
    RemoveMetadataAssertsPass()(program.graph_module)
    pack_for_tensor_cores(program)
    program.validate()
    calls = program.graph.find_nodes(op="call_function", target=quantized_mma.QUANTIZED_MMA)
    assert sorted(node.args[-1] for node in calls) == [48, 48, 48 + 32], "not of other groups"
    assert not program.graph.find_nodes(op="call_function", target=_aten.mul.Tensor), "scales"
    for found, expected in zip(program.module()(x), module.double()(x.double()), strict=True):
        assert (found.double() - expected).norm() / expected.norm() < 8e-3


class Float8(nn.Module):
    """float8 with a scale for each output, as torchao's Float8WeightOnlyConfig leaves it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight: torch.Tensor
        self.register_buffer("weight", torch.randn(48, 192).to(torch.float8_e4m3fn))
        self.scale = nn.Parameter(torch.rand(48, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, (self.weight.to(x.dtype) * self.scale).t())


def test_float8() -> None:
    torch.manual_seed(0)
    module, x = Float8().eval(), torch.randn(5, 192, dtype=torch.bfloat16)
    module.scale.data = module.scale.data.bfloat16()
    expected = module(x.double())
    program = torch.export.export(module, (x,)).run_decompositions()
    RemoveMetadataAssertsPass()(program.graph_module)
    before = str(program.graph)
    pack_quantized_weights(program)
    assert str(program.graph) == before, "CPUs have no float8"
    pack_for_tensor_cores(program)
    assert program.graph.find_nodes(op="call_function", target=quantized_mma.QUANTIZED_MMA)
    found = program.module()(x).double()
    assert (found - expected).norm() / expected.norm() < 8e-3


@pytest.mark.parametrize("kind", ["int4", "int8", "float8"])
def test_layout_of_tensor_cores(kind: str) -> None:
    """A thread's values of an mma are consecutive (see the operator's documentation)."""
    torch.manual_seed(0)
    values = torch.randint(-8 if kind == "int4" else -128, 8, (192, 41)).to(torch.int8)
    if kind == "float8":
        values = torch.randn(192, 41).to(torch.float8_e4m3fn)
    packed = quantized_mma.pack(values)
    assert torch.equal(quantized_mma.unpack(packed)[:, :41], values.float())
    stored = packed.view(torch.uint8)
    for strip, chunk, lane, q, p, e, half in [(0, 0, 0, 0, 0, 0, 0), (1, 2, 23, 3, 1, 1, 0)] + [
        (1, 1, 6, 2, 1, 0, 1)
    ]:
        value = values[
            64 * chunk + 16 * q + lane % 4 * 4 + 2 * p + e, 16 * strip + lane // 4 + 8 * half
        ]
        if kind == "int4":
            byte = stored[strip, chunk, lane * 16 + q * 4 + e * 2 + p]
            assert (byte >> 4 * half & 15) - 8 == value
        else:
            at = (q // 2 * 32 + lane) * 16 + q % 2 * 8 + p * 4 + e * 2 + half
            byte = stored[strip, chunk, at]
            if kind == "int8":
                assert byte.int() - 128 == value
            else:
                assert byte.view(torch.float8_e4m3fn).float() == value.float()


def _linear(quantized: bool, rows: int, columns: int) -> nn.Module:
    if not quantized:
        return nn.Linear(rows, columns, bias=False)
    part = Plain(rows)
    part.weight = torch.randint(-128, 128, (columns, rows), dtype=torch.int8)
    part.scale = nn.Parameter(torch.rand(columns) / 512)
    return part


class Block(nn.Module):
    """RMSNorm, a gated layer and a residual, in forms in which models have them."""

    def __init__(
        self, quantized: bool, *, wide: bool = True, swapped: bool = False, also: str = ""
    ) -> None:
        super().__init__()
        self.gate, self.up, self.down = (
            _linear(quantized, *sizes) for sizes in ((192, 64), (192, 64), (64, 192))
        )
        self.norm = nn.Parameter(torch.rand(192) + 0.5)
        self.wide, self.swapped, self.also = wide, swapped, also

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        wide = x.to(torch.promote_types(x.dtype, torch.float32)) if self.wide else x
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        normed = self.norm * normed.to(x.dtype)
        a, b = (part(normed.view(-1, 192)).view(1, -1, 64) for part in (self.gate, self.up))
        a, b = (b, a) if self.swapped else (a, b)
        found = x + self.down((nn.functional.silu(a) * b).view(-1, 64)).view_as(x)
        return [found, *[{"norm": normed, "gate": a, "up": b}[name] for name in self.also.split()]]


#: Arguments of a block, rows, and of each call whether there are a norm, a residual and a gate.
_BLOCKS: list[tuple[dict[str, Any], int, list[tuple[bool, bool, bool]]]] = [
    ({}, 1, [(True, False, True), (False, True, False)]),
    ({"swapped": True}, 1, [(True, False, True), (False, True, False)]),
    ({"wide": False}, 1, [(False, False, True), (False, True, False)]),
    ({"also": "norm"}, 1, [(False, False, True), (False, True, False)]),
    ({"also": "gate"}, 1, [(True, False, False), (False, True, False)]),
    ({"also": "up"}, 1, [(True, False, False), (False, True, False)]),
    ({}, 2, []),
]


@pytest.mark.parametrize("quantized", [True, False])
@pytest.mark.parametrize(("arguments", "rows", "calls"), _BLOCKS)
def test_surroundings(
    arguments: dict[str, Any], rows: int, calls: list[tuple[bool, bool, bool]], quantized: bool
) -> None:
    torch.manual_seed(0)
    module = Block(quantized, **arguments).eval().bfloat16()
    x = torch.randn(1, rows, 192, dtype=torch.bfloat16)
    program = torch.export.export(module, (x,)).run_decompositions()
    RemoveMetadataAssertsPass()(program.graph_module)
    pack_for_tensor_cores(program, fuse=True)
    program.validate()
    nodes = program.graph.find_nodes(op="call_function", target=quantized_mma.FUSED_MMA)
    assert [(n.args[7] is not None, n.args[9] is not None, n.args[10]) for n in nodes] == calls
    assert all((n.args[4] is not None) == quantized for n in nodes)
    if calls == _BLOCKS[0][2]:
        assert not program.graph.find_nodes(op="call_function", target=_aten.mul.Tensor)
    for found, expected in zip(program.module()(x), module.double()(x.double()), strict=True):
        assert (found.double() - expected).norm() / expected.norm() < 8e-3


@pytest.mark.parametrize("swapped", [False, True])
def test_one_row_and_many_share_the_weights(swapped: bool) -> None:
    torch.manual_seed(0)
    module = Block(True, swapped=swapped).eval().bfloat16()
    packed = []
    for rows in (1, 5):
        x = torch.randn(1, rows, 192, dtype=torch.bfloat16)
        program = torch.export.export(module, (x,)).run_decompositions()
        RemoveMetadataAssertsPass()(program.graph_module)
        pack_for_tensor_cores(program, fuse=True)
        values = [value for value in program.state_dict.values() if value.dim() == 3]
        packed.append(sorted(bytes(value.view(torch.uint8).flatten().tolist()) for value in values))
        (found,), (expected,) = program.module()(x), module(x)
        assert (found - expected).norm() / expected.norm() < 2e-2
    assert len(packed[0]) == 2 and packed[0] == packed[1]
