"""A program as plain data: the tables of `runtime/schema/program.fbs` and `tensor_data.fbs`.

Class and field names are those of the schema, so that `flatbuffer.py` can translate both ways
without a line per field. Meaning and rules are written there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias


class ShapeDynamism(IntEnum):
    STATIC = 0
    DYNAMIC_BOUND = 1
    DYNAMIC_UNBOUND = 2


class DeviceType(IntEnum):
    CPU = 0
    CUDA = 1


class TensorLocation(IntEnum):
    IN_FILE = 0
    EXTERNAL = 1


class DelegateDataLocation(IntEnum):
    INLINE = 0
    SEGMENT = 1


@dataclass
class InlineBytes:
    data: bytes = b""


@dataclass
class Segment:
    offset: int = 0
    size: int = 0


@dataclass
class SegmentOffsets:
    segment_index: int = 0
    offsets: list[int] = field(default_factory=list)


@dataclass
class NamedData:
    key: str = ""
    segment_index: int = 0


@dataclass
class Null:
    pass


@dataclass
class Int:
    value: int = 0


@dataclass
class Bool:
    value: bool = False


@dataclass
class Double:
    value: float = 0.0


@dataclass
class String:
    value: str = ""


@dataclass
class IntList:
    items: list[int] = field(default_factory=list)


@dataclass
class DoubleList:
    items: list[float] = field(default_factory=list)


@dataclass
class BoolList:
    items: list[bool] = field(default_factory=list)


@dataclass
class TensorList:
    items: list[int] = field(default_factory=list)


@dataclass
class OptionalTensorList:
    items: list[int] = field(default_factory=list)


@dataclass
class AllocationInfo:
    memory_id: int = 0
    offset_low: int = 0
    offset_high: int = 0

    @classmethod
    def at(cls, memory_id: int, offset: int) -> AllocationInfo:
        return cls(memory_id, offset & 0xFFFFFFFF, offset >> 32)

    @property
    def offset(self) -> int:
        return self.offset_high << 32 | self.offset_low


@dataclass
class ExtraTensorInfo:
    mutable_segment_index: int = 0
    fully_qualified_name: str | None = None
    location: TensorLocation = TensorLocation.IN_FILE
    device_type: DeviceType = DeviceType.CPU
    device_index: int = 0


@dataclass
class Tensor:
    scalar_type: int = 0
    storage_offset: int = 0
    sizes: list[int] = field(default_factory=list)
    dim_order: list[int] = field(default_factory=list)
    requires_grad: bool = False
    data_index: int = 0
    allocation: AllocationInfo | None = None
    layout: int = 0
    shape_dynamism: ShapeDynamism = ShapeDynamism.STATIC
    extra: ExtraTensorInfo | None = None


Value: TypeAlias = (
    Null
    | Int
    | Bool
    | Double
    | Tensor
    | String
    | IntList
    | DoubleList
    | BoolList
    | TensorList
    | OptionalTensorList
)


@dataclass
class EValue:
    value: Value


@dataclass
class KernelCall:
    operator_index: int = 0
    args: list[int] = field(default_factory=list)


@dataclass
class DelegateCall:
    delegate_index: int = 0
    args: list[int] = field(default_factory=list)


@dataclass
class MoveCall:
    from_index: int = 0
    to_index: int = 0


@dataclass
class JumpFalseCall:
    condition_index: int = 0
    destination: int = 0


@dataclass
class FreeCall:
    value_index: int = 0


InstructionCall: TypeAlias = KernelCall | DelegateCall | MoveCall | JumpFalseCall | FreeCall


@dataclass
class Instruction:
    call: InstructionCall


@dataclass
class Frame:
    filename: str = ""
    line: int = 0
    function: str = ""
    source: str = ""


@dataclass
class FrameList:
    frames: list[Frame] = field(default_factory=list)


@dataclass
class Chain:
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    stacktrace: list[FrameList] | None = None


@dataclass
class Operator:
    name: str = ""
    overload: str = ""


@dataclass
class CompileSpec:
    key: str = ""
    value: bytes = b""


@dataclass
class DelegateData:
    location: DelegateDataLocation = DelegateDataLocation.INLINE
    index: int = 0


@dataclass
class Delegate:
    id: str
    processed: DelegateData
    compile_specs: list[CompileSpec] = field(default_factory=list)


@dataclass
class ContainerTypes:
    inputs: str = ""
    outputs: str = ""
    input_names: list[str] | None = None
    output_names: list[str] | None = None


@dataclass
class BufferDevice:
    buffer_index: int = 0
    device_type: DeviceType = DeviceType.CPU
    device_index: int = 0


@dataclass
class Method:
    name: str = ""
    container_types: ContainerTypes | None = None
    values: list[EValue] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    chains: list[Chain] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    delegates: list[Delegate] = field(default_factory=list)
    buffer_sizes: list[int] = field(default_factory=list)
    buffer_devices: list[BufferDevice] | None = None


@dataclass
class Program:
    version: int = 0
    methods: list[Method] = field(default_factory=list)
    inline_constants: list[InlineBytes] | None = None
    inline_delegate_data: list[InlineBytes] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    constant_segment: SegmentOffsets | None = None
    mutable_segments: list[SegmentOffsets] | None = None
    named_data: list[NamedData] | None = None


@dataclass
class TensorDataSegment:
    offset: int = 0
    size: int = 0


@dataclass
class TensorLayout:
    scalar_type: int = 0
    sizes: list[int] = field(default_factory=list)
    dim_order: list[int] = field(default_factory=list)


@dataclass
class TensorDataEntry:
    key: str = ""
    segment_index: int = 0
    tensor_layout: TensorLayout | None = None


@dataclass
class TensorData:
    version: int = 0
    segments: list[TensorDataSegment] = field(default_factory=list)
    named_data: list[TensorDataEntry] = field(default_factory=list)
