"""Options of the emitter."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch.fx import Node

from pteron.exir.passes.memory_planning import MemoryPlanningPass


@dataclass(frozen=True, kw_only=True)
class EmitOptions:
    """Options of the emitter.

    Attributes:
      memory: planning options, by method name.
      stacktraces: store the model's source lines with instructions.
      graph: store the graph of each method; see `model_graph`.
      delegate_segments: store delegates' bytes in separate segments (else within the FlatBuffers
        part).
      external_constants: the tag of a constant's .ptd file, or None.
      inputs_on_device: whether inputs that only delegates of one device read are passed in that
        device's memory, by method name.
      outputs_on_device: whether outputs stay on the device that computed them, by method name.
    """

    memory: Mapping[str, MemoryPlanningPass]
    stacktraces: bool = False
    graph: bool = True
    delegate_segments: bool = True
    external_constants: Callable[[Node], str | None] = lambda node: None
    inputs_on_device: Mapping[str, bool] = field(default_factory=dict)
    outputs_on_device: Mapping[str, bool] = field(default_factory=dict)
