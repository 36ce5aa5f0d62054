"""Options of lowering and of writing a program."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch._ops import OpOverload
from torch.fx import Node

from pteron.exir._serialize.container import SEGMENT_ALIGNMENT
from pteron.exir._serialize.program_file import CONSTANT_ALIGNMENT
from pteron.exir.passes.memory_planning import MemoryPlanningPass

DEFAULT_EXTERNAL_TAG = "_default_external_constant"
"""Name of the .ptd file of constants that are external without a name."""


@dataclass(frozen=True, kw_only=True)
class EdgeCompileConfig:
    """Options for converting an exported program to an edge program.

    Attributes:
      preserve_ops: operators that are never decomposed.
      _check_ir_validity: accepted for compatibility; programs are always checked.
      _use_edge_ops: likewise; programs stay in terms of ATen operators.
      _core_aten_ops_exception_list: likewise; any ATen operator may be in a program.
    """

    preserve_ops: Sequence[OpOverload] = ()
    _check_ir_validity: bool = True
    _use_edge_ops: bool = True
    _core_aten_ops_exception_list: Sequence[OpOverload] = ()

    def __post_init__(self) -> None:
        wrong = [op for op in self.preserve_ops if not isinstance(op, OpOverload)]
        if wrong:
            raise TypeError(
                f"preserve_ops lists {wrong}; expected operators with their overload, such as"
                f" torch.ops.aten.linear.default"
            )


@dataclass(frozen=True, kw_only=True)
class ExecutorchBackendConfig:
    """Options for emitting a lowered program.

    Attributes:
      passes: run over each method's graph before it is emitted.
      memory_planning_pass: planning options, optionally by method name.
      emit_stacktrace: store the model's source lines with instructions.
      emit_graph: store the graph of each method, for `pteron inspect --html`: operators with their
        shapes, module and source line, about 20 bytes each.
      extract_delegate_segments: keep delegates' bytes in segments, which are read only when needed.
      segment_alignment: of each segment in the file, in bytes.
      constant_tensor_alignment: of each constant in the file, in bytes.
      skip_h2d_for_method_inputs: inputs that only delegates of one device read are passed in that
        device's memory, without a copy; optionally by method name.
      skip_d2h_for_method_outputs: outputs stay in the memory of the device that computed them.
      verify: run the lowered and the exported program and compare: True on the example inputs and
        others derived from them, "example" only on the example inputs.
      external_constants: put constants into .ptd files: True for all, or a function that gives the
        file's name (without suffix) for a constant's placeholder, or None to keep it.
    """

    passes: Sequence[Callable[..., Any]] = ()
    memory_planning_pass: MemoryPlanningPass | Mapping[str, MemoryPlanningPass] = field(
        default_factory=MemoryPlanningPass
    )
    emit_stacktrace: bool = False
    emit_graph: bool = True
    extract_delegate_segments: bool = True
    segment_alignment: int = SEGMENT_ALIGNMENT
    constant_tensor_alignment: int = CONSTANT_ALIGNMENT
    external_constants: bool | Callable[[Node], str | None] = False
    skip_h2d_for_method_inputs: bool | Mapping[str, bool] = False
    skip_d2h_for_method_outputs: bool | Mapping[str, bool] = False
    verify: bool | Literal["example"] = True

    def __post_init__(self) -> None:
        if self.verify not in (True, False, "example"):
            raise ValueError(f'verify is {self.verify!r}; expected True, False or "example"')

    @staticmethod
    def by_method(choice: bool | Mapping[str, bool], methods: Sequence[str]) -> Mapping[str, bool]:
        """Expands an option for all methods, or by method name, to one per method."""
        return dict.fromkeys(methods, choice) if isinstance(choice, bool) else choice

    def memory_options(self, methods: Sequence[str]) -> dict[str, MemoryPlanningPass]:
        """Planning options of each method. ValueError for a name that is no method."""
        options = self.memory_planning_pass
        if isinstance(options, MemoryPlanningPass):
            return dict.fromkeys(methods, options)
        unknown = sorted(options.keys() - set(methods))
        if unknown:
            raise ValueError(
                f"memory_planning_pass names {unknown}, but the methods are {sorted(methods)}"
            )
        return {method: options.get(method, MemoryPlanningPass()) for method in methods}

    def external_tag(self, node: Node) -> str | None:
        """The .ptd file that a constant goes to, or None."""
        if callable(self.external_constants):
            return self.external_constants(node)
        return DEFAULT_EXTERNAL_TAG if self.external_constants else None
