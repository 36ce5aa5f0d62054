"""Products of float32 whose operands may be rounded to bfloat16."""

import copy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from pteron.backends.cpu import CpuOptions, CpuPartitioner
from pteron.backends.cpu.isa import LEVELS, machine_features
from pteron.exir import to_edge_transform_and_lower
from pteron.runtime import Runtime

_LEVELS = [isa.name for isa in LEVELS if isa.vector_bits and isa.features <= machine_features()]


class Products(nn.Module):
    """Of an even number of terms, transposed or not, of an odd one, of a quantized weight, and of
    two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.even, self.odd = nn.Linear(96, 1280), nn.Linear(33, 48)
        self.plain = nn.Parameter(torch.randn(64, 40))
        self.levels: torch.Tensor
        self.register_buffer("levels", torch.randint(-128, 128, (64, 80), dtype=torch.int8))
        self.scale = nn.Parameter(torch.rand(64) / 100)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        quantized = torch.mm(x[:, :80], self.levels.t().to(x.dtype)) * self.scale
        return [self.even(x), x[:, :64] @ self.plain, quantized, self.odd(x[:, :33]), x.t() @ x]


def _run(path: Path, options: CpuOptions, module: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    exported = export(module, (x,), dynamic_shapes=({0: Dim("rows", max=100)},))
    lowered = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner(options)])
    lowered.to_executorch().save(path)  # compares with what is allowed
    return Runtime.get().load_program(path).load_method("forward").execute([x])


@pytest.mark.parametrize("isa", _LEVELS)
def test_operands_are_rounded_and_sums_are_not(isa: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = Products().eval(), torch.randn(70, 96)
    right = copy.deepcopy(module).double()(x.double())
    with torch.no_grad():
        rounded = copy.deepcopy(module)
        for each in (rounded.even.weight, rounded.plain):
            each.copy_(each.bfloat16())
    of_rounded = copy.deepcopy(rounded).double()(x.bfloat16().double())
    exact = _run(tmp_path / "exact.pte", CpuOptions(isa=isa), module, x)
    options = CpuOptions(isa=isa, matmul_precision="medium")
    medium = _run(tmp_path / "medium.pte", options, module, x)
    for index, (found, whole) in enumerate(zip(medium, exact, strict=True)):
        torch.testing.assert_close(whole.double(), right[index], rtol=1e-4, atol=1e-4)
        if index >= 3:
            assert torch.equal(found, whole)
            continue
        expected, scale = of_rounded[index], right[index].abs().mean()
        # To float32's precision, where the product itself is not rounded.
        assert (found - expected).abs().mean() < 3e-3 * scale
        assert (found - right[index]).abs().mean() > 1e-4 * scale
    sizes = [(tmp_path / f"{name}.pte").stat().st_size for name in ("medium", "exact")]
    assert sizes[0] < sizes[1] - 0.8 * 2 * module.even.weight.numel()


def test_methods_that_share_weights_round_nothing(tmp_path: Path) -> None:
    module, x = nn.Linear(64, 64).eval(), torch.randn(40, 64)
    programs = {name: export(module, (x,)) for name in ("first", "second")}
    options = CpuOptions(matmul_precision="medium")
    lowered = to_edge_transform_and_lower(programs, partitioner=[CpuPartitioner(options)])
    lowered.to_executorch().save(tmp_path / "model.pte")
    program = Runtime.get().load_program(tmp_path / "model.pte")
    for name in programs:
        (found,) = program.load_method(name).execute([x])
        torch.testing.assert_close(found, module(x), rtol=1e-5, atol=1e-5)


def test_shared_weights_are_not_rounded() -> None:
    with pytest.raises(ValueError, match="matmul_precision='medium' packs weights"):
        CpuOptions(matmul_precision="medium", weights="shared")
    with pytest.raises(ValueError, match="matmul_precision is 'high'; expected one of highest, me"):
        CpuOptions(matmul_precision="high")
