"""Lowered partitions, and their calls in a program."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from pteron.exir._serialize.named_data_store import NamedDataStoreOutput
from pteron.exir.graph.compile_spec import CompileSpec
from pteron.exir.graph.delegate import executorch_call_delegate


class CallTree(NamedTuple):
    """Pytrees of a call's arguments and results."""

    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec


class LoweredBackendModule(torch.nn.Module):
    """A lowered partition together with the original partition.

    In a program it is the first argument of `executorch_call_delegate`. Called as a module, it
    runs the partition eagerly, so that it can be part of a model that is exported again. Immutable
    and shared by all copies of a program.

    Attributes:
      backend_id: class name of the backend.
      processed_bytes: for the backend's runtime half.
      compile_specs: as passed to the backend.
      original_module: the partition as a functional program: state that the delegate mutates is an
        input, and its new value an output.
      named_data_store_output: named blobs, or None.
      mutated_inputs: (output, input) positions in `original_module`'s user outputs and inputs:
        the delegate writes the output into the input in place, and does not return it.
      tree: pytrees of arguments and results if the backend took a whole program; None for a
        partition, which has flat arguments.
      meta: for use by lowering; holds the partition's tag.
    """

    def __init__(
        self,
        edge_program: ExportedProgram,
        backend_id: str,
        processed_bytes: bytes,
        compile_specs: list[CompileSpec],
        named_data_store_output: NamedDataStoreOutput | None = None,
        mutated_inputs: tuple[tuple[int, int], ...] = (),
        tree: CallTree | None = None,
    ) -> None:
        super().__init__()
        self._original_module = edge_program
        self._backend_id = backend_id
        self._processed_bytes = processed_bytes
        self._compile_specs = compile_specs
        self._named_data_store_output = named_data_store_output
        self._mutated_inputs = mutated_inputs
        self._tree = tree
        self.meta: dict[str, Any] = {}

    @property
    def backend_id(self) -> str:
        return self._backend_id

    @property
    def processed_bytes(self) -> bytes:
        return self._processed_bytes

    @property
    def compile_specs(self) -> list[CompileSpec]:
        return self._compile_specs

    @property
    def original_module(self) -> ExportedProgram:
        return self._original_module

    @property
    def named_data_store_output(self) -> NamedDataStoreOutput | None:
        return self._named_data_store_output

    @property
    def mutated_inputs(self) -> tuple[tuple[int, int], ...]:
        return self._mutated_inputs

    def nodes(self) -> list[Node]:
        """The operator calls in the delegate."""
        return [n for n in self._original_module.graph.nodes if n.op == "call_function"]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._tree is None:
            return executorch_call_delegate(self, *args)
        flat, in_spec = pytree.tree_flatten((args, kwargs))
        if in_spec != self._tree.in_spec:
            raise TypeError(
                f"the module was exported with arguments {self._tree.in_spec}, not {in_spec}"
            )
        results = executorch_call_delegate(self, *flat)
        return pytree.tree_unflatten(results, self._tree.out_spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> LoweredBackendModule:
        return self

    def __copy__(self) -> LoweredBackendModule:
        return self


def lowered_module_of(call: Node) -> LoweredBackendModule:
    """The lowered module that a delegate call runs."""
    attribute = call.args[0]
    assert isinstance(attribute, Node) and attribute.op == "get_attr"
    root: torch.nn.Module | None = call.graph.owning_module
    assert root is not None and isinstance(attribute.target, str)
    module = root.get_submodule(attribute.target)
    assert isinstance(module, LoweredBackendModule)
    return module


def lowered_modules(graph_module: GraphModule) -> list[tuple[Node, LoweredBackendModule]]:
    """Every delegate call of a graph with its lowered module, in order."""
    return [
        (node, lowered_module_of(node))
        for node in graph_module.graph.nodes
        if node.op == "call_function" and node.target is executorch_call_delegate
    ]
