"""LSTM, GRU and RNN of any number of steps run as in eager, also those of two threads."""

import pathlib
from typing import Any

import torch
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from pteron.exir.operators.recurrent_layers import whole_recurrent_layers
from pteron.runtime import Runtime
from tests.e2e.lowering import lower_to_file
from tests.models.sample import max_relative_error, randn


class Layers(nn.Module):
    """All kinds, with and without biases, batch first or not, of float32, float64 and bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(24, 160, num_layers=2, bidirectional=True, batch_first=True)
        self.projected = nn.LSTM(24, 72, proj_size=40, bidirectional=True)
        self.gru = nn.GRU(24, 37, num_layers=2, bidirectional=True, bias=False)
        self.tanh = nn.RNN(24, 40)
        self.relu = nn.RNN(24, 9, nonlinearity="relu", bidirectional=True, batch_first=True)
        self.exact = nn.LSTM(24, 20).double()
        self.narrow = nn.GRU(24, 20).bfloat16()

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> tuple[Any, ...]:
        y = x.transpose(0, 1)
        return (
            self.lstm(x),
            self.projected(y),
            self.gru(y),
            self.tanh(y, h),
            self.relu(x),
            self.exact(y.double()),
            self.narrow(y.bfloat16()),
        )


def inputs(batch: int, steps: int) -> tuple[torch.Tensor, ...]:
    return randn(steps, batch, steps, 24), randn(steps, 1, batch, 40)


def check(method: Any, model: nn.Module, batch: int, steps: int) -> None:
    with torch.no_grad():
        expected = pytree.tree_leaves(model(*inputs(batch, steps)))
    found = method.execute(inputs(batch, steps))
    for index, (one, reference) in enumerate(zip(found, expected, strict=True)):
        assert one.shape == reference.shape and one.dtype == reference.dtype, index
        bounds = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2}
        error = max_relative_error(one, reference)
        assert error <= bounds[one.dtype], f"output {index}: {error}"


def test_any_number_of_steps(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    model = Layers().eval()
    batch, steps = Dim("batch", min=0, max=64), Dim("steps", min=1, max=512)
    shapes = ({0: batch, 1: steps}, {1: batch})
    with whole_recurrent_layers():
        program = torch.export.export(model, inputs(3, 5), dynamic_shapes=shapes)
    path = tmp_path / "model.pte"
    lower_to_file(program, path)
    for threads in (1, 2):
        method = (
            Runtime.get()
            .load_program(path)
            .load_method("forward", backend_options={"CpuBackend": {"num_threads": threads}})
        )
        for sizes in ((3, 5), (1, 1), (5, 40), (1, 200)):
            check(method, model, *sizes)
