"""Plans and weights that the BLAS backend makes, and files with them, run and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import pteron.backends.example.blas.schema.plan_generated as schema
from pteron.backends.example.blas import BlasOptions, BlasPartitioner
from pteron.exir import ExecutorchProgramManager, to_edge_transform_and_lower
from pteron.exir.lowered_backend_module import lowered_modules
from pteron.runtime import Runtime


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.down = nn.Linear(8, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x))


class Scores(nn.Module):
    """Every operator, a tied weight, a left constant, state that a product replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.tied = nn.Linear(6, 6)
        self.left = nn.Parameter(torch.randn(3, 6))
        self.register_buffer("state", torch.eye(6))

    def forward(self, x: torch.Tensor, bias: torch.Tensor, weight: torch.Tensor) -> Any:
        y = self.tied(self.tied(x))
        scores = torch.bmm(y, y.transpose(1, 2))
        constant = torch.mm(self.left, torch.addmm(bias, bias, weight, alpha=0.5, beta=2))
        given = nn.functional.linear(x, weight, bias[0])
        self.state.copy_(torch.mm(self.state, weight))
        return scores, constant, given, y[..., :3]


def lower(
    module: nn.Module, *inputs: torch.Tensor, tag: str = "", **options: Any
) -> ExecutorchProgramManager:
    exported = torch.export.export(module.eval(), inputs, **options)
    partitioner = BlasPartitioner(BlasOptions(external_tag=tag))
    return to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch()


def plans(program: ExecutorchProgramManager) -> list[schema.PlanT]:
    modules = lowered_modules(program.exported_program().graph_module)
    return [schema.PlanT.InitFromPackedBuf(m.processed_bytes, 0) for _, m in modules]


def test_weights_are_turned_once() -> None:
    torch.manual_seed(0)
    model = Mlp()
    program = lower(model, torch.randn(2, 4))
    (plan,) = plans(program)
    assert [list(c.sizes) for c in plan.constants] == [[8], [4, 8], [8, 4]]
    assert [p.rightTransposed for p in plan.products] == [False, False]
    assert [p.bias is None for p in plan.products] == [False, True]
    stored = model.up.weight.detach().t().contiguous().numpy().tobytes()
    assert stored in program.buffer


def test_equal_weights_are_stored_once() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
    model[1].load_state_dict(model[0].state_dict())
    program = lower(model, torch.randn(2, 32))
    stored = model[0].weight.detach().t().contiguous().numpy().tobytes()
    assert program.buffer.count(stored) == 1


@pytest.mark.parametrize("tag", ["", "blas_weights"], ids=["inside", "beside"])
def test_runs_equal_to_eager(tmp_path: Path, tag: str) -> None:
    torch.manual_seed(0)
    model = Scores().eval()
    example = (torch.randn(2, 5, 6), torch.randn(6, 6), torch.randn(6, 6))
    shapes = ({0: Dim("batch", max=7), 1: Dim("length", max=9)}, None, None)
    program = lower(model, *example, tag=tag, dynamic_shapes=shapes)
    program.save(tmp_path / "scores.pte")
    program.write_tensor_data_to_file(tmp_path)
    beside = sorted(tmp_path.glob("*.ptd"))
    assert [path.name for path in beside] == ([f"{tag}.ptd"] if tag else [])

    loaded = Runtime.get().load_program(tmp_path / "scores.pte", data_path=beside)
    method = loaded.load_method("forward")
    for batch, length in ((2, 5), (7, 9), (1, 2), (3, 9)):
        inputs = (torch.randn(batch, length, 6), torch.randn(6, 6), torch.randn(6, 6))
        with torch.no_grad():
            expected = model(*inputs)
        torch.testing.assert_close(tuple(method.execute(inputs)), expected)


def test_state_that_a_product_replaces_is_kept_between_calls(tmp_path: Path) -> None:
    class Power(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("power", torch.eye(3) * 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.power.copy_(torch.mm(self.power, x))
            return torch.mm(self.power, x)

    program = lower(Power(), torch.eye(3))
    program.save(tmp_path / "power.pte")
    method = Runtime.get().load_program(tmp_path / "power.pte").load_method("forward")
    x = torch.randn(3, 3)
    for exponent in range(2, 5):
        (found,) = method.execute([x])
        torch.testing.assert_close(found, 2 * torch.linalg.matrix_power(x, exponent))


def test_missing_weights_are_named(tmp_path: Path) -> None:
    lower(Mlp(), torch.randn(2, 4), tag="away").save(tmp_path / "mlp.pte")
    program = Runtime.get().load_program(tmp_path / "mlp.pte")
    with pytest.raises(Exception, match="a weight of BlasBackend: .*_blas_weight"):
        program.load_method("forward")


def test_unknown_load_option_is_refused(tmp_path: Path) -> None:
    lower(Mlp(), torch.randn(2, 4)).save(tmp_path / "mlp.pte")
    program = Runtime.get().load_program(tmp_path / "mlp.pte")
    with pytest.raises(Exception, match='BlasBackend has no option "threads"'):
        program.load_method("forward", backend_options={"BlasBackend": {"threads": 2}})
