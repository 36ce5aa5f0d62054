"""How programs are written to files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch.fx import Node

from pteron.exir.memory_planning import MemoryPlanningPass


@dataclass(frozen=True, kw_only=True)
class EmitOptions:
    """How programs are written.

    Attributes:
      memory: planning options, by method name.
      stacktraces: write the model's source lines beside instructions.
      delegate_segments: keep delegates' bytes in segments of their own (else within the
        FlatBuffers part).
      external_constants: whether a constant goes to a .ptd file, and to which: its tag, or None.
      inputs_on_device: whether inputs that only delegates of one device read are handed over in
        that device's memory, by method name.
      outputs_on_device: whether outputs stay where they were computed, by method name.
    """

    memory: Mapping[str, MemoryPlanningPass]
    stacktraces: bool = False
    delegate_segments: bool = True
    external_constants: Callable[[Node], str | None] = lambda node: None
    inputs_on_device: Mapping[str, bool] = field(default_factory=dict)
    outputs_on_device: Mapping[str, bool] = field(default_factory=dict)
