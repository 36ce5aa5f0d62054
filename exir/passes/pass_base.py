"""Base class of program passes.

A pass over a graph is torch's `PassBase`: `requires` and `ensures` check what must hold before and
after `call(graph_module)`. `ProgramPass` does the same for an exported program, for passes that
need its signature::

    class MyPass(ProgramPass):
        def call(self, program: ExportedProgram) -> ExportedProgram: ...

Programs stay functional between passes: nothing is mutated, and no two values alias
as far as the graph can tell. `ResolveMutations`, the last, ends that.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassBase, PassResult

__all__ = ["Pass", "PassBase", "PassResult", "ProgramPass"]


class ProgramPass(ABC):
    """A pass over an exported program."""

    def __call__(self, program: ExportedProgram) -> ExportedProgram:
        self.requires(program)
        result = self.call(program)
        self.ensures(result)
        return result

    def requires(self, program: ExportedProgram) -> None:  # noqa: B027
        """Raises if the program violates a precondition of the pass."""

    @abstractmethod
    def call(self, program: ExportedProgram) -> ExportedProgram:
        """Returns the changed program: the given one, or a new one."""

    def ensures(self, program: ExportedProgram) -> None:  # noqa: B027
        """Raises if the result lacks a property that the pass guarantees."""


Pass: TypeAlias = Callable[[GraphModule], PassResult | None] | ProgramPass
"""A pass over a graph, which may edit it in place and return None, or over a program."""
