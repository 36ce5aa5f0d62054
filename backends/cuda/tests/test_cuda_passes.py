"""Passes over a partition's graph, and that lowering applies them. The last case needs a GPU."""

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export

from pteron.backends.aoti.contract import contract_of
from pteron.backends.aoti.ops.attention.attention import RUNTIME_ATTENTION, WHOLE
from pteron.backends.cuda import CudaBackend, CudaOptions
from pteron.backends.cuda.cuda_passes import (
    MAX_BYTES,
    SelectInsteadOfCondPass,
    attention_pass,
    cuda_passes,
)
from pteron.backends.cuda.tests.programs import check, load, lower, save
from pteron.exir.operators.decompositions import decompose, functionalize

_needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

Branch = Callable[..., Any]


class Cond(nn.Module):
    """A condition on data between two branches, in the middle of other work."""

    def __init__(self, if_true: Branch, if_false: Branch, width: int = 8) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)
        self.branches = if_true, if_false

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if_true, if_false = self.branches
        y = torch.cond(
            x.sum() > 0, lambda x: if_true(self, x), lambda x: if_false(self, x), (x * 2,)
        )
        return y + 1


def _up(model: Cond, x: torch.Tensor) -> torch.Tensor:
    return torch.relu(model.up(x))


def _down(model: Cond, x: torch.Tensor) -> torch.Tensor:
    return model.down(x).log()


def _lookup(model: Cond, x: torch.Tensor) -> torch.Tensor:
    return x[torch.arange(3, device=x.device).flip(0)] * 1.0


def _noise(model: Cond, x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand_like(x)


def _program(model: nn.Module, x: torch.Tensor, **options: Any) -> ExportedProgram:
    with torch.no_grad():
        return export(model.eval(), (x,), **options).run_decompositions({})


def _conds(program: ExportedProgram) -> int:
    return sum(
        node.target is torch.ops.higher_order.cond for node in program.graph_module.graph.nodes
    )


@pytest.mark.parametrize(("if_true", "if_false"), [(_up, _down), (_down, _up), (_up, _up)])
def test_small_branches_are_both_computed(if_true: Branch, if_false: Branch) -> None:
    torch.manual_seed(0)
    model, x = Cond(if_true, if_false), torch.randn(3, 8).abs()
    program = _program(model, x)
    assert _conds(program) == 1
    assert SelectInsteadOfCondPass()(program.graph_module).modified
    assert _conds(program) == 0
    program.graph_module.graph.lint()
    for value in (x, -x):  # the branch not taken gives NaN for some of them
        torch.testing.assert_close(program.module()(value), model(value), equal_nan=True)


class Several(nn.Module):
    """Branches with several results, a predicate of one dimension, one cond in another's place."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = torch.cond(
            (x[0] > 0), lambda x: (x + 1, x.sum(1)), lambda x: (x - 1, x.mean(1)), (x,)
        )
        return a, torch.cond(b.sum() > 0, lambda b: b * 2, lambda b: b / 2, (b,))


class _Attend(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v)


@pytest.mark.parametrize(
    ("queries", "items", "library"), [(40, 8, True), (40, 16, False), (4, 64, True)]
)
def test_small_heads_of_float32_are_the_librarys(queries: int, items: int, library: bool) -> None:
    """Inductor's flex_attention raises an error for them."""
    inputs = tuple(torch.randn(1, 2, queries, items) for _ in range(3))
    program = decompose(functionalize(export(_Attend(), inputs)), WHOLE)
    attention_pass(CudaOptions())(program.graph_module)
    targets = [node.target for node in program.graph.nodes]
    assert (RUNTIME_ATTENTION in targets) == library
    assert (torch.ops.higher_order.flex_attention in targets) != library


def test_every_result_is_selected() -> None:
    model = Several()
    program = _program(model, torch.randn(1, 1))
    assert SelectInsteadOfCondPass()(program.graph_module).modified
    assert _conds(program) == 0
    for value in (torch.ones(1, 1), -torch.ones(1, 1)):
        torch.testing.assert_close(program.module()(value), model(value))


def test_outputs_are_known_by_their_names() -> None:
    """A condition whose result is an output: signature and contract say what they said before."""
    program = _program(Several(), torch.randn(1, 1))
    before = contract_of(program)
    assert SelectInsteadOfCondPass()(program.graph_module).modified
    assert contract_of(program) == before
    assert {tensor.dtype for tensor in before[1]} == {torch.float32}
    nodes = {node.name for node in program.graph.nodes}
    assert {spec.arg.name for spec in program.graph_signature.output_specs} <= nodes


@pytest.mark.parametrize(
    ("if_true", "if_false"), [(_up, _lookup), (_noise, _up)], ids=["indexing", "random"]
)
def test_what_could_be_noticed_is_left_alone(if_true: Branch, if_false: Branch) -> None:
    program = _program(Cond(if_true, if_false), torch.randn(3, 8))
    assert not SelectInsteadOfCondPass()(program.graph_module).modified
    assert _conds(program) == 1


def test_large_branches_are_left_alone() -> None:
    width = int((MAX_BYTES / 4) ** 0.5) + 1  # the weight alone is too much
    with torch.device("meta"):
        model, x = Cond(_up, _up, width), torch.randn(1, width)
    program = _program(model, x)
    assert not SelectInsteadOfCondPass()(program.graph_module).modified


def test_sizes_that_are_not_known_are_left_alone() -> None:
    rows = Dim("rows", min=2, max=100)
    program = _program(Cond(_up, _up), torch.randn(3, 8), dynamic_shapes=({0: rows},))
    assert not SelectInsteadOfCondPass()(program.graph_module).modified


def test_the_backend_applies_them() -> None:
    found = [type(each) for each in CudaBackend.get_custom_passes(CudaOptions())]
    assert found[: len(cuda_passes())] == [type(each) for each in cuda_passes()]
    assert len(found) > len(cuda_passes())  # what all backends apply


@_needs_gpu
def test_no_call_waits_for_a_small_condition(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    model, x = Cond(_up, _down).eval(), torch.randn(3, 8)
    program = lower(export(model, (x,)))
    path = save(
        program, tmp_path, skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True
    )
    method = load(path).load_method("forward")
    values = [x.abs().cuda(), -x.abs().cuda()]
    with torch.no_grad():
        expected = [model(value.cpu()) for value in values]
    for value in values:
        method.execute([value])
    torch.cuda.synchronize()
    torch.cuda._sleep(400_000_000)
    earlier = torch.cuda.Event()
    earlier.record()
    found = [method.execute([value])[0] for value in values]
    assert not earlier.query(), "a call waited for the predicate"
    for output, reference in zip(found, expected, strict=True):
        assert torch.equal(output.cpu().isnan(), reference.isnan())
        check([output.nan_to_num(0.0)], [reference.nan_to_num(0.0)], 1e-5)
