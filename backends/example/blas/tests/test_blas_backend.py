"""What the BLAS backend takes, the weights that it makes, and files with them, run and compared."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from pteron.backends.example.blas.blas_partitioner import BlasPartitioner, reason
from pteron.exir import ExecutorchProgramManager, to_edge, to_edge_transform_and_lower
from pteron.exir.backend.partitioner import LEFT_OUT_REASON
from pteron.exir.graph.lowered_backend_module import lowered_modules
from pteron.runtime import Runtime


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self._function(*args)


class Products(nn.Module):
    """Every operator, a tied weight, a left constant, state that a product replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.tied = nn.Linear(6, 6)
        self.left = nn.Parameter(torch.randn(3, 6))
        self.register_buffer("state", torch.eye(6))

    def forward(self, x: torch.Tensor, row: torch.Tensor, weight: torch.Tensor) -> Any:
        y = self.tied(self.tied(x))
        constant = torch.addmm(row, self.left, weight)
        given = nn.functional.linear(x, weight, row)
        new = torch.mm(self.state, weight)
        self.state.copy_(new)
        return y, constant, given, new, torch.mm(self.state, weight)


def lower(
    module: nn.Module, *inputs: torch.Tensor, tag: str = "", **options: Any
) -> ExecutorchProgramManager:
    exported = torch.export.export(module.eval(), inputs, **options)
    partitioner = BlasPartitioner(external_tag=tag)
    return to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch()


def test_takes_linear_whole_and_leaves_the_rest() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.narrow = nn.Linear(3, 3)
            self.wide = nn.Linear(3, 3).double()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.wide(torch.relu(self.narrow(x)).double())

    exported = torch.export.export(Mixed(), (torch.randn(2, 3),))
    linears = [n for n in exported.graph.nodes if n.target is torch.ops.aten.linear.default]
    assert [reason(node) is None for node in linears] == [True, False]
    lowered = to_edge_transform_and_lower(exported, partitioner=[BlasPartitioner()])
    program = lowered.exported_program()
    ((_, module),) = lowered_modules(program.graph_module)
    assert [node.target for node in module.nodes()] == [torch.ops.aten.linear.default]
    assert sorted(program.state_dict) == ["wide.bias", "wide.weight"]
    again = BlasPartitioner().partition(program)
    assert again.partition_tags == {}, "takes nothing from another delegate"


@pytest.mark.parametrize(
    ("function", "inputs", "why"),
    [
        (torch.mm, [torch.ones(2, 2).double()] * 2, "float64; BlasBackend multiplies torch.fl"),
        (torch.mm, [torch.ones(2, 3).t(), torch.ones(2, 2)], "args_0 is not row-major"),
        (torch.addmm, [torch.ones(2, 1)] + [torch.ones(2, 2)] * 2, "adds a tensor of shape (2, 1)"),
        (lambda *x: torch.addmm(*x, alpha=2), [torch.ones(2)] + [torch.ones(2, 2)] * 2, "neither"),
        (torch.add, [torch.ones(2)] * 2, "None"),
    ],
    ids=["double", "columns", "column_bias", "scaled", "no_product"],
)
def test_leaves(function: Callable[..., Any], inputs: list[torch.Tensor], why: str) -> None:
    lowered = to_edge(torch.export.export(Function(function), tuple(inputs))).exported_program()
    assert BlasPartitioner().partition(lowered).partition_tags == {}
    *_, last = (node for node in lowered.graph.nodes if node.op == "call_function")
    assert why in str(last.meta.get(LEFT_OUT_REASON))


def test_equal_weights_are_turned_and_stored_once() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
    model[1].load_state_dict(model[0].state_dict())
    program = lower(model, torch.randn(2, 32))
    stored = model[0].weight.detach().t().contiguous().numpy().tobytes()
    assert program.buffer.count(stored) == 1


@pytest.mark.parametrize("tag", ["", "blas_weights"], ids=["inside", "beside"])
def test_runs_equal_to_eager(tmp_path: Path, tag: str) -> None:
    torch.manual_seed(0)
    model = Products().eval()
    example = (torch.randn(2, 5, 6), torch.randn(6), torch.randn(6, 6))
    shapes = ({0: Dim("batch", max=7), 1: Dim("length", max=9)}, None, None)
    program = lower(model, *example, tag=tag, dynamic_shapes=shapes)
    program.save(tmp_path / "products.pte")
    program.write_tensor_data_to_file(tmp_path)
    beside = sorted(tmp_path.glob("*.ptd"))
    assert [path.name for path in beside] == ([f"{tag}.ptd"] if tag else [])

    loaded = Runtime.get().load_program(tmp_path / "products.pte", data_path=beside)
    method = loaded.load_method("forward")
    for batch, length in ((2, 5), (7, 9), (1, 2), (3, 9)):
        inputs = (torch.randn(batch, length, 6), torch.randn(6), torch.randn(6, 6))
        with torch.no_grad():
            expected = model(*inputs)
        torch.testing.assert_close(tuple(method.execute(inputs)), expected)


def test_what_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    lower(nn.Linear(4, 4), torch.randn(2, 4), tag="away").save(tmp_path / "linear.pte")
    program = Runtime.get().load_program(tmp_path / "linear.pte")
    with pytest.raises(Exception, match="a weight of BlasBackend: .*_blas_weight"):
        program.load_method("forward")
    with pytest.raises(Exception, match='BlasBackend has no option "threads"'):
        program.load_method("forward", backend_options={"BlasBackend": {"threads": 2}})
