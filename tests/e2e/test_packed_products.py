"""Matmuls with packed bfloat16, int8 and int4 weights, as compiled code computes them."""

import copy
import pathlib

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from pteron.backends.cpu import CpuBackend
from pteron.backends.cpu.isa import LEVELS, machine_features
from tests.e2e.lowering import lower_to_file

_LEVELS = [isa for isa in LEVELS if isa.vector_bits and isa.features <= machine_features()]


class Quantized(nn.Module):
    """Products with one weight of each kind; inputs come in groups of `group`."""

    def __init__(self, inputs: int, outputs: int, group: int) -> None:
        super().__init__()
        self.group = group
        self.plain: torch.Tensor
        levels = torch.randint(-128, 128, (outputs, inputs)).to(torch.int8)
        self.register_buffer("plain", levels)
        self.register_buffer("int4", levels // 16)
        self.register_buffer("uint8", levels.view(torch.uint8))
        self.register_buffer("uint4", levels.view(torch.uint8) // 16)
        self.scale = nn.Parameter(torch.rand(outputs, inputs // group, 1) / 100 + 0.01)
        self.register_buffer("zero", torch.randint(0, 16, self.scale.shape).to(torch.uint8))
        self.bias = nn.Parameter(torch.rand(outputs))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        rows = x.flatten(0, -2)
        results = [torch.mm(rows, self.plain.t().to(x.dtype)) * self.scale[:, 0, 0] + self.bias]
        for name in ("plain", "int4", "uint8", "uint4"):
            levels = getattr(self, name).view(*self.scale.shape[:2], self.group).to(x.dtype)
            if name.startswith("u"):
                levels = levels - self.zero.to(x.dtype)
            weight = (levels * self.scale).view_as(self.plain)
            results.append(F.linear(x, weight, self.bias).abs())
        return results


class Several(nn.Module):
    """Shapes with whole and with cut panels, and numbers of terms that are cut into parts."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Quantized(96, 40, 16), Quantized(2304, 160, 32)])
        self.odd: torch.Tensor
        self.register_buffer("odd", torch.randint(-128, 128, (50, 97)).to(torch.int8))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        results = [torch.mm(x[:, :97], self.odd.t().to(x.dtype))]
        return results + [r for part in self.parts for r in part(x[:, : part.plain.shape[1]])]


class Linears(nn.Module):
    """Even and odd numbers of terms, whole and cut panels."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((96, 48), (97, 50), (2304, 160), (64, 16))
        self.parts = nn.ModuleList([nn.Linear(*each) for each in sizes])

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [part(x[..., : part.in_features]).abs() for part in self.parts]


#: Of numbers that are rounded to a dtype twice, a product and what follows it.
_ERRORS = {torch.float32: 2e-6, torch.float16: 5e-4, torch.bfloat16: 4e-3}


@pytest.mark.parametrize(
    ("make", "dtype", "rows", "is_dynamic"),
    [
        (Several, torch.float32, 1, False),
        (Several, torch.float32, 29, True),
        (Several, torch.bfloat16, 29, False),
        (Several, torch.float16, 3, False),
        (Linears, torch.bfloat16, 1, False),
        (Linears, torch.bfloat16, 29, True),
        (Linears, torch.bfloat16, 75, False),
        (Linears, torch.float16, 29, False),
    ],
)
def test_results(
    make: type[nn.Module], dtype: torch.dtype, rows: int, is_dynamic: bool, tmp_path: pathlib.Path
) -> None:
    check(make, dtype, rows, is_dynamic, tmp_path)


@pytest.mark.parametrize("make", [Linears, Several])
def test_without_avx512_bf16(
    make: type[nn.Module], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch._inductor.compile_fx  # first: its parts import one another in a circle

    from pteron.backends.aoti.inductor import packed_micro_gemms

    asked = '__builtin_cpu_supports("avx512bf16")'
    text = packed_micro_gemms._COMMON
    assert text.count(asked) == 1
    monkeypatch.setattr(packed_micro_gemms, "_COMMON", text.replace(asked, "false"))
    monkeypatch.setattr(CpuBackend, "keeps_results", lambda options: False)
    check(make, torch.bfloat16, 29, True, tmp_path)


def check(
    make: type[nn.Module], dtype: torch.dtype, rows: int, is_dynamic: bool, tmp_path: pathlib.Path
) -> None:
    """Lowers a module and compares what each variant of its code computes with float64."""
    torch.manual_seed(0)
    module, x = make().eval().to(dtype), torch.randn(rows, 2304).to(dtype)
    dynamic = ({0: Dim("rows", max=99)},) if is_dynamic else None
    with torch.no_grad():
        exported = torch.export.export(module, (x,), dynamic_shapes=dynamic)
        program = lower_to_file(exported, tmp_path / "model.pte")
        halves = copy.deepcopy(module)
        module.double()
    for isa in _LEVELS[-2:]:
        method = program.load_method("forward", backend_options={"CpuBackend": {"isa": isa.name}})
        for count in (rows, 1, 8, 64) if is_dynamic else (rows,):
            x = torch.randn(count, 2304).to(dtype)
            with torch.no_grad():
                expected, eager = module(x.double()), halves(x)
            results = zip(method.execute([x]), eager, expected, strict=True)
            for index, (found, theirs, exact) in enumerate(results):
                assert found.dtype == dtype
                ours, other = ((y.double() - exact).norm() / exact.norm() for y in (found, theirs))
                limit = max(_ERRORS[dtype], 1.05 * other)
                assert ours < limit, f"{isa.name}, {count} rows, output {index}"
