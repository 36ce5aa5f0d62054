"""Runs an exported program once with a given graph interpreter."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import GraphModule, Interpreter

from pteron.exir.graph.exported_program import CONSTANT_KINDS, constant_tensor, input_specs_by_name
from pteron.exir.verification.full_precision import full_precision_matmuls

State: TypeAlias = dict[str, torch.Tensor]
"""Buffers that a program mutates, by their name in the model."""


def call(
    program: ExportedProgram,
    inputs: Sequence[Any],
    state: State,
    interpreter: Callable[[GraphModule], Interpreter] = Interpreter,
) -> list[Any]:
    """Runs a program once, functional or not; does not modify the program.

    Args:
      program: provides parameters and buffers, except those in `state`.
      inputs: flat user inputs, mutated if the program mutates them.
      state: replaced by the new values.
      interpreter: runs the graph, on user inputs converted by its `user_input`.

    Returns:
      The user outputs, copied to the CPU.
    """
    runner = interpreter(program.graph_module)
    of_user = getattr(runner, "user_input", lambda value: value)
    left = iter(inputs)
    values = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            values.append(of_user(next(left)))
        elif spec.kind is InputKind.BUFFER and spec.target in state:
            values.append(state[spec.target])
        elif spec.kind in CONSTANT_KINDS:
            values.append(constant_tensor(program, spec).detach())
        else:
            values.append(program.constants[str(spec.target)])
    try:
        with torch.no_grad(), full_precision_matmuls():
            results = runner.run(*values)
    except Exception:
        while torch._C._functorch.peek_interpreter_stack() is not None:
            torch._C._functorch.pop_dynamic_layer_stack()  # a torch.vmap that the graph entered
        raise
    outputs, changed = [], {}
    for spec, value in zip(program.graph_signature.output_specs, results, strict=True):
        if spec.kind is OutputKind.BUFFER_MUTATION:
            state[str(spec.target)] = value
        elif spec.kind is OutputKind.USER_INPUT_MUTATION:
            changed[str(spec.target)] = value
        else:
            outputs.append(value)
    names = [n for n, s in input_specs_by_name(program).items() if s.kind is InputKind.USER_INPUT]
    for name, value in zip(names, inputs, strict=True):
        if isinstance(value, torch.Tensor) and name in changed:
            value.copy_(changed[name])
    return [on_host(value) for value in outputs]


def on_host(value: Any) -> Any:
    """A copy of a tensor in host memory; anything else unchanged."""
    return value.detach().to("cpu", copy=True) if isinstance(value, torch.Tensor) else value
