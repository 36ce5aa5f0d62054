"""The instructions of one method during emission."""

from torch.fx import Node

from pteron.exir._serialize import schema
from pteron.exir.emit.source_frames import source_frames


class InstructionList:
    """Instructions in order, and their operators."""

    def __init__(self) -> None:
        self._instructions: list[schema.Instruction] = []
        self._origins: list[Node] = []
        self._operators: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self._instructions)

    def add(self, call: schema.InstructionCall, origin: Node) -> None:
        """Adds an instruction for the node `origin`."""
        self._instructions.append(schema.Instruction(call))
        self._origins.append(origin)

    def add_kernel(self, name: str, arguments: list[int], origin: Node) -> None:
        """Adds a call of the kernel `name`, such as `aten::add.out`."""
        base, _, overload = name.partition(".")
        index = self._operators.setdefault((base, overload), len(self._operators))
        self.add(schema.KernelCall(index, arguments), origin)

    def operators(self) -> list[schema.Operator]:
        return [schema.Operator(*key) for key in self._operators]

    def chain(self, stacktraces: bool) -> schema.Chain:
        """All instructions as a method's single chain."""
        chain = schema.Chain(instructions=self._instructions)
        if stacktraces:
            chain.stacktrace = [schema.FrameList(source_frames(node)) for node in self._origins]
        return chain
