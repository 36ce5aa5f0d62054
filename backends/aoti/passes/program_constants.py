"""Constants of a program, for passes that replace them.

constants = ProgramConstants(program)
if weight in constants:
    conv.replace_input_with(weight, constants.add(weight, constants.value(weight) * 2))
constants.remove_unused()
"""

import itertools
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import Node

from pteron.exir.graph.exported_program import CONSTANT_KINDS, constant_tensor, input_specs_by_name


class ProgramConstants:
    """Parameters, buffers and constants that the program does not write, by placeholder."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        mutated = set(program.graph_signature.buffers_to_mutate.values())
        self._specs = {
            name: spec
            for name, spec in input_specs_by_name(program).items()
            if spec.kind in CONSTANT_KINDS and spec.target not in mutated
        }
        self._read: dict[str, Node] = {}

    def __contains__(self, node: Any) -> bool:
        return isinstance(node, Node) and node.op == "placeholder" and node.name in self._specs

    def value(self, node: Any) -> torch.Tensor:
        """The tensor; `remove_unused` may remove it."""
        self._read[node.name] = node
        return constant_tensor(self._program, self._specs[node.name]).detach()

    def add(self, like: Node, value: torch.Tensor) -> Node:
        """A new parameter, named after `like`."""
        program = self._program
        taken = {node.name for node in program.graph.nodes}
        name = next(n for i in itertools.count(1) if (n := f"{like.name}_{i}") not in taken)
        program.state_dict[name] = torch.nn.Parameter(value, requires_grad=False)
        with program.graph.inserting_before(next(iter(program.graph.nodes))):
            node = program.graph.placeholder(name)
        fake = like.meta["val"]
        node.meta["val"] = fake.new_empty_strided(value.shape, value.stride(), dtype=value.dtype)
        spec = InputSpec(InputKind.PARAMETER, TensorArgument(name=node.name), target=name)
        program.graph_signature.input_specs.insert(0, spec)
        self._specs[node.name] = spec
        return node

    def remove_unused(self) -> None:
        """Removes constants whose value was read here and that have no users any more."""
        signature = self._program.graph_signature
        for name, node in self._read.items():
            if node.users:
                continue
            node.graph.erase_node(node)
            spec = self._specs.pop(name)
            signature.input_specs.remove(spec)
            if spec.target not in {other.target for other in signature.input_specs}:
                self._program.state_dict.pop(spec.target, None)
        self._read = {}
