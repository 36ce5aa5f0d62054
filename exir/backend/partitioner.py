"""The interface by which a backend selects nodes to lower.

A partitioner tags nodes; it never edits the graph::

    class MyPartitioner(Partitioner):
        def partition(self, exported_program: ExportedProgram) -> PartitionResult:
            for node in get_non_lowered_nodes(exported_program.graph):
                if node.target is torch.ops.aten.mm.default:
                    node.meta["delegation_tag"] = "mm"
            tag_constant_data(exported_program)
            return PartitionResult(exported_program, {"mm": DelegationSpec("MyBackend", [])})
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch.export import ExportedProgram

from pteron.exir.backend.compile_spec_schema import CompileSpec
from pteron.exir.passes.pass_base import Pass

DELEGATION_TAG = "delegation_tag"
"""Key of a node's tag in `node.meta`, set by a partitioner."""

LEFT_OUT_REASON = "left_out_reason"
"""Key in `node.meta` of the reason (a str) why a partitioner left a node."""


class DelegationSpec(NamedTuple):
    """The backend that lowers a partition, and its options.

    Attributes:
      backend_id: class name of the backend.
      compile_specs: passed to its `preprocess` and written to the file.
    """

    backend_id: str
    compile_specs: list[CompileSpec]


@dataclass(frozen=True)
class PartitionResult:
    """A tagged program and what its tags mean.

    Attributes:
      tagged_exported_program: the program that `partition` was given, now with tags.
      partition_tags: backend and specs of each tag. Nodes of one tag become one delegate, so they
        must be convex: no path between two of them may leave the set.
    """

    tagged_exported_program: ExportedProgram
    partition_tags: dict[str, DelegationSpec]


class Partitioner(ABC):
    """Selects the nodes that a backend lowers. Subclasses implement `partition`."""

    def __call__(self, exported_program: ExportedProgram) -> PartitionResult:
        return self.partition(exported_program)

    @abstractmethod
    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tags nodes by writing `node.meta["delegation_tag"]`.

        Args:
          exported_program: a copy to tag. Only its nodes' `meta` may change; this is checked. Tag
            constants too if the backend is to own them (see
            `pteron.exir.backend.utils.tag_constant_data`); never tag user inputs.
        """

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[torch.fx.Node], bool] | None]:
        """Operators that must not be decomposed for this backend, and optionally a node filter.

        They are excluded from the decompositions before `partition`. With a filter, an operator is
        kept if the filter accepts any node that calls it.
        """
        return [], None

    def passes(self) -> Sequence[Pass]:
        """Passes over a program before `partition` sees it: what the backend adds to it outside its
        delegates."""
        return ()
