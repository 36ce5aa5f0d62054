"""Passes, as graphs before and after."""

import torch
from torch.export import ExportedProgram

from pteron.exir import to_edge
from pteron.exir.backend.backend_api import to_backend
from pteron.exir.passes.remove_asserts import RemoveAsserts
from pteron.exir.passes.resolve_mutations import ResolveMutations
from pteron.exir.passes.run import run_passes
from pteron.exir.tests.backends import OpsPartitioner
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


def test_remove_asserts() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        torch._assert_async((x > 0).all(), "too small")
        return x + 1

    program = to_edge(torch.export.export(Function(function), ((torch.ones(2),),)))
    assert len(text(program.exported_program())) > 2
    found = text(run_passes(program.exported_program(), [RemoveAsserts()]))
    assert [line.split(" = ")[-1].split("(")[0] for line in found] == ["add.Tensor", "return add"]
