"""Files with our delegates run in the stock runtime, where the delegates are plugged in."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.runtime import Runtime as StockRuntime
from torch import nn
from torch.export import Dim

from pteron.backends.cpu import CpuOptions, CpuPartitioner
from pteron.backends.example.blas.blas_backend import PRODUCTS
from pteron.backends.example.blas.blas_partitioner import BlasPartitioner
from pteron.exir import to_edge_transform_and_lower
from pteron.exir.backend.partitioner import Partitioner
from tests.oracle.plugin import plug_in
from tests.oracle.programs import ATTENTION


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 64)
        self.down = nn.Linear(64, 16)
        self.register_buffer("calls", torch.zeros(16))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls.add_(1)
        return self.down(torch.nn.functional.gelu(self.up(x))) + x, self.calls * 2


class Products(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.mm(self.weight(x), y)


def run_in_stock(
    model: nn.Module,
    calls: Sequence[tuple[torch.Tensor, ...]],
    shapes: Any,
    partitioners: list[Partitioner],
    folder: Path,
) -> None:
    exported = torch.export.export(copy.deepcopy(model), calls[0], dynamic_shapes=shapes)
    edge = to_edge_transform_and_lower(exported, partitioner=partitioners)
    program = edge.to_executorch()
    program.save(folder / "model.pte")
    program.write_tensor_data_to_file(folder)
    beside = next(folder.glob("*.ptd"), None)
    loaded = StockRuntime.get().load_program(folder / "model.pte", data_path=beside)
    method = loaded.load_method("forward")
    for inputs in calls:
        with torch.no_grad():
            result = model(*inputs)
        expected = list(result) if isinstance(result, tuple) else [result]
        torch.testing.assert_close(list(method.execute(inputs)), expected, rtol=1e-4, atol=1e-5)


BATCH = {0: Dim("batch", max=8)}


@pytest.mark.parametrize("tag", ["", "weights"], ids=["inside", "beside"])
def test_blas(tag: str, tmp_path: Path) -> None:
    plug_in("pteron.backends.example.blas")
    torch.manual_seed(0)
    calls = [(torch.randn(8, 16), torch.randn(8, 8)) for _ in range(3)]
    run_in_stock(Products().eval(), calls, None, [BlasPartitioner(external_tag=tag)], tmp_path)


def test_blas_and_cpu_stacked(tmp_path: Path) -> None:
    plug_in("pteron.backends.example.blas")
    plug_in("pteron.backends.cpu")
    torch.manual_seed(0)
    calls = [(torch.randn(batch, 16),) for batch in (2, 8, 1, 5)]
    partitioners = [CpuPartitioner(leave_out=PRODUCTS), BlasPartitioner()]
    run_in_stock(Mlp().eval(), calls, (BATCH,), partitioners, tmp_path)


def test_cpu_alone_with_weights_beside(tmp_path: Path) -> None:
    plug_in("pteron.backends.cpu")
    torch.manual_seed(0)
    calls = [(torch.randn(batch, 16),) for batch in (3, 7)]
    partitioners = [CpuPartitioner(CpuOptions(save_data_externally=True))]
    run_in_stock(Mlp().eval(), calls, (BATCH,), partitioners, tmp_path)


def test_what_no_partitioner_took(tmp_path: Path) -> None:
    plug_in("pteron.backends.cpu")
    run_in_stock(ATTENTION.module(), ATTENTION.calls, None, [], tmp_path)


def test_a_file_is_refused_with_our_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plug_in("pteron.backends.example.blas")
    example = (torch.randn(8, 16), torch.randn(8, 8))
    partitioner = BlasPartitioner(external_tag="away")
    edge = to_edge_transform_and_lower(
        torch.export.export(Products().eval(), example), partitioner=[partitioner]
    )
    edge.to_executorch().save(tmp_path / "model.pte")
    with pytest.raises(RuntimeError):
        StockRuntime.get().load_program(tmp_path / "model.pte").load_method("forward")
    assert "a weight of BlasBackend" in capfd.readouterr().err
