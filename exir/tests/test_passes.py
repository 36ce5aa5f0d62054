"""Passes, as graphs before and after."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram

from pteron.exir import to_edge
from pteron.exir.backend.backend_api import to_backend
from pteron.exir.passes.checkable_asserts import CheckableAsserts
from pteron.exir.passes.resolve_mutations import ResolveMutations
from pteron.exir.passes.run import run_passes
from pteron.exir.tests import interpreter
from pteron.exir.tests.backends import OpsPartitioner, run_delegate
from pteron.exir.tests.modules import Cache, Function

aten = torch.ops.aten


CALL = "executorch_call_delegate"


def text(program: ExportedProgram) -> list[str]:
    """One line a node, without what the tests are not about."""
    lines = []
    for node in program.graph.nodes:
        if node.op == "call_function":
            name = getattr(node.target, "__name__", str(node.target)).split("::")[-1]
            line = f"{node.name} = {name}({', '.join(str(arg) for arg in node.args)})"
            lines.append(line.replace(CALL, "call").replace("call(l", f"{CALL}(l"))
        elif node.op == "output":
            lines.append(f"return {', '.join(str(arg) for arg in node.args[0])}")
    return lines


def test_resolve_mutations() -> None:
    example = (torch.ones(1, 4), torch.tensor([0]))
    program = to_edge(torch.export.export(Cache(), example)).exported_program()
    lowered = to_backend(program, OpsPartitioner(but=[aten.sum.dim_IntList, aten.add.Tensor]))
    assert text(lowered) == [
        "call = executorch_call_delegate(lowered_module_0, b_keys, x, position)",
        "getitem = getitem(call, 0)",
        "sum_1 = sum.dim_IntList(getitem, [0])",
        "add = add.Tensor(sum_1, x)",
        "return getitem, add",
    ]
    assert text(ResolveMutations()(lowered)) == [
        "call = executorch_call_delegate(lowered_module_0, b_keys, x, position)",
        "sum_1 = sum.dim_IntList(b_keys, [0])",
        "add = add.Tensor(sum_1, x)",
        "return add",
    ]
    # The given program is as it was.
    assert len(lowered.graph_signature.buffers_to_mutate) == 1


def checkable(function: Callable[..., Any], *arguments: torch.Tensor) -> list[str]:
    program = to_edge(torch.export.export(Function(function), (arguments,))).exported_program()
    return text(run_passes(program, [CheckableAsserts()]))


def test_assertions_of_conditions_stay() -> None:
    def function(x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        torch._assert_async((x > 0).all(), "too small")
        torch._check(number.item() != 3)
        return x.to(torch.float64)

    found = " ".join(checkable(function, torch.ones(2), torch.tensor(1)))
    assert "_assert_async.msg(" in found and ", too small)" in found
    assert "sym_not" in found and found.count("_assert_scalar.default(") == 1
    assert "_assert_tensor_metadata" not in found


@pytest.mark.parametrize(
    "op, limits, expected",
    [
        (aten.sym_constrain_range.default, {"min": 2, "max": 7}, ["ge(%, 2)", "le(%, 7)"]),
        (aten.sym_constrain_range.default, {"max": 7}, ["le(%, 7)"]),
        (aten.sym_constrain_range_for_size.default, {}, ["ge(%, 0)"]),
        (aten.sym_constrain_range_for_size.default, {"max": 7}, ["ge(%, 0)", "le(%, 7)"]),
    ],
)
def test_ranges_become_conditions(op: Any, limits: dict[str, int], expected: list[str]) -> None:
    def constrain(module: torch.fx.GraphModule) -> None:
        graph = module.graph
        (number,) = graph.find_nodes(op="call_function", target=aten._local_scalar_dense.default)
        with graph.inserting_after(number):
            graph.call_function(op, (number,), limits)

    function = Function(lambda number: number.item() * torch.ones(2))
    edge = to_edge(torch.export.export(function, ((torch.tensor(1),),)))
    found = text(run_passes(edge.exported_program(), [constrain, CheckableAsserts()]))
    conditions = [line for line in found if re.search(" = [gl]e", line)]
    assert [re.sub(r".* = |_local\w+", "", c).replace("(,", "(%,") for c in conditions] == expected
    assert sum("_assert_scalar.default(" in line for line in found) == len(expected)


def test_a_delegate_that_only_asserts_stays() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch._assert_async((x > 0).all(), "too small")
        return y

    program = to_edge(torch.export.export(Function(function), ((torch.ones(2), torch.ones(3)),)))
    lowered = to_backend(program.exported_program(), OpsPartitioner())
    found = run_passes(lowered, [CheckableAsserts()])
    assert [line.split("(")[0] for line in text(found)][0].endswith(CALL)
    method = interpreter.load(
        program.to_backend(OpsPartitioner()).to_executorch().buffer, run_delegate
    )
    method["forward"](torch.ones(2), torch.ones(3))
    with pytest.raises(RuntimeError, match="too small"):
        method["forward"](torch.zeros(2), torch.ones(3))
