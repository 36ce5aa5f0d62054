"""Programs of a Metal delegate and the CPU's, over the device for tests."""

import pathlib

import pytest
import torch
from torch import nn

from pteron.backends.aoti.aoti_partitioner import LeftOutWarning
from pteron.backends.apple.metal import MetalPartitioner
from pteron.backends.apple.metal.tests.programs import HOST, open_recording_device, run_and_check
from pteron.backends.cpu import CpuPartitioner
from pteron.exir.graph.lowered_backend_module import lowered_modules
from tests.models.sample import randn

open_recording_device()


class Layers(nn.Module):
    """Two products with something between them and behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(32, 64), nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).sin()).softmax(-1)


@pytest.mark.parametrize("order", ["metal_first", "cpu_first"])
def test_stacked_with_the_cpu(order: str, tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    left_out = ["aten.sin.default"]
    partitioners = (
        [MetalPartitioner(HOST, leave_out=left_out), CpuPartitioner()]
        if order == "metal_first"
        else [CpuPartitioner(leave_out=left_out), MetalPartitioner(HOST)]
    )
    with pytest.warns(LeftOutWarning, match="aten.sin"):
        manager = run_and_check(Layers(), [(randn(0, 4, 32),)], tmp_path, partitioner=partitioners)
    modules = lowered_modules(manager.exported_program().graph_module)
    assert {module.backend_id for _, module in modules} == {"MetalBackend", "CpuBackend"}
