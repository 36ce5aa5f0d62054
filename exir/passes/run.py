"""Runs passes over a program and keeps its signature consistent."""

from collections.abc import Sequence

from torch.export import ExportedProgram
from torch.fx import GraphModule

from pteron.exir.graph.exported_program import copy_program, flat_outputs, with_graph
from pteron.exir.passes.pass_base import Pass, PassResult, ProgramPass


def run_passes(program: ExportedProgram, passes: Sequence[Pass]) -> ExportedProgram:
    """The program after all passes, in order; the given one is not changed.

    A pass takes a `GraphModule` and returns a `PassResult`, or None if it edits in place; a
    `ProgramPass` takes the whole program. Inputs and outputs must stay as many as they are.
    """
    if not passes:
        return program
    program = copy_program(program)
    for item in passes:
        if isinstance(item, ProgramPass):
            program = item(program)
        else:
            result = item(program.graph_module)
            module = result.graph_module if isinstance(result, PassResult) else program.graph_module
            program = _with_module(program, module, getattr(item, "__name__", type(item).__name__))
    return program


def _with_module(program: ExportedProgram, module: GraphModule, name: str) -> ExportedProgram:
    module.graph.lint()
    signature = program.graph_signature
    inputs = list(module.graph.find_nodes(op="placeholder"))
    outputs = flat_outputs(module.graph)
    if len(inputs) != len(signature.input_specs) or len(outputs) != len(signature.output_specs):
        raise RuntimeError(
            f"pass {name} changed the number of inputs ({len(signature.input_specs)} to"
            f" {len(inputs)}) or outputs ({len(signature.output_specs)} to {len(outputs)})"
        )
    olds = [node for node in program.graph.nodes if node.op == "placeholder"]
    return with_graph(program, module, module.graph, dict(zip(olds, inputs, strict=True)))
