"""Writes small programs without delegates, for tests of what runs programs.

method = MethodBuilder("forward")
x = method.input([2, 3])
y = method.planned([2, 3])
method.clone(x, y)
method.output(y)
data = build_program(method)
"""

import math
import struct
from collections.abc import Sequence
from typing import Any

import flatbuffers

import pteron.runtime.schema.program_generated as schema
import pteron.runtime.schema.tensor_data_generated as data_schema

# numbers and sizes of runtime/core/scalar_types.inc
DTYPES = {
    "uint8": (0, 1),
    "int32": (3, 4),
    "int64": (4, 8),
    "float16": (5, 2),
    "float32": (6, 4),
    "float64": (7, 8),
    "bool": (11, 1),
    "bfloat16": (15, 2),
    "float8_e4m3fn": (24, 1),
}
_ALIGNMENT = 64


class MethodBuilder:
    """One method; every call returns the index of the value it adds."""

    def __init__(self, name: str = "forward") -> None:
        self._method = schema.MethodT()
        self._method.name = name
        self._method.values = []
        self._method.inputs = []
        self._method.outputs = []
        self._method.operators = []
        self._method.delegates = []
        self._instructions: list[Any] = []
        self._planned_nbytes = 0

    def input(self, sizes: Sequence[int], dtype: str = "float32", **options: Any) -> int:
        """A tensor that the caller gives; `planned=True` copies it into the method's memory."""
        index = self.tensor(sizes, dtype, **options)
        self._method.inputs.append(index)
        return index

    def scalar_input(self, value: Any) -> int:
        index = self.value(value)
        self._method.inputs.append(index)
        return index

    def planned(self, sizes: Sequence[int], dtype: str = "float32", **options: Any) -> int:
        """A tensor in the method's memory."""
        return self.tensor(sizes, dtype, planned=True, **options)

    def tensor(
        self,
        sizes: Sequence[int],
        dtype: str = "float32",
        *,
        planned: bool = False,
        bounded: bool = False,
        dim_order: Sequence[int] | None = None,
        buffer_name: str = "",
        external_name: str = "",
    ) -> int:
        """A tensor; with a `buffer_name` a mutable buffer, with an `external_name` a constant."""
        number, element_nbytes = DTYPES[dtype]
        tensor = schema.TensorT()
        tensor.scalarType = number
        tensor.sizes = list(sizes)
        tensor.dimOrder = list(dim_order or range(len(sizes)))
        tensor.shapeDynamism = 1 if bounded else 0
        if planned or buffer_name:
            tensor.allocation = schema.AllocationInfoT()
            tensor.allocation.memoryId = 1
            tensor.allocation.offsetLow = self._planned_nbytes
            nbytes = math.prod(sizes) * element_nbytes
            self._planned_nbytes += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        if buffer_name:
            tensor.extra = schema.ExtraTensorInfoT()
            tensor.extra.fullyQualifiedName = buffer_name
        if external_name:
            tensor.extra = schema.ExtraTensorInfoT()
            tensor.extra.fullyQualifiedName = external_name
            tensor.extra.location = schema.TensorLocation.External
        return self._add(schema.Value.Tensor, tensor)

    def value(self, value: Any) -> int:
        """None, a bool, an int, a float or a string."""
        if value is None:
            return self._add(schema.Value.Null, schema.NullT())
        kind, table = {
            bool: (schema.Value.Bool, schema.BoolT()),
            int: (schema.Value.Int, schema.IntT()),
            float: (schema.Value.Double, schema.DoubleT()),
            str: (schema.Value.String, schema.StringT()),
        }[type(value)]
        table.value = value
        return self._add(kind, table)

    def int_list(self, items: Sequence[int]) -> int:
        """A list whose items are values of their own."""
        table = schema.IntListT()
        table.items = [self.value(item) for item in items]
        return self._add(schema.Value.IntList, table)

    def tensor_list(self, items: Sequence[int]) -> int:
        table = schema.TensorListT()
        table.items = list(items)
        return self._add(schema.Value.TensorList, table)

    def clone(self, source: int, out: int) -> None:
        """A call that copies one tensor to another."""
        self.kernel("aten::clone.out", source, self.value(None), out, out)

    def output(self, *indices: int) -> None:
        self._method.outputs.extend(indices)

    def kernel(self, name: str, *arguments: int) -> None:
        """A call of an operator; what it returns is named again at the end, as programs have it."""
        operator = schema.OperatorT()
        operator.name, _, operator.overload = name.partition(".")
        self._method.operators.append(operator)
        call = schema.KernelCallT()
        call.operatorIndex = len(self._method.operators) - 1
        call.args = list(arguments)
        self._instruct(schema.InstructionCall.KernelCall, call)

    def delegate(self, backend_id: str, *arguments: int) -> None:
        """A call of a delegate without any bytes."""
        delegate = schema.DelegateT()
        delegate.id = backend_id
        delegate.processed = schema.DelegateDataT()
        delegate.compileSpecs = []
        self._method.delegates.append(delegate)
        call = schema.DelegateCallT()
        call.delegateIndex = len(self._method.delegates) - 1
        call.args = list(arguments)
        self._instruct(schema.InstructionCall.DelegateCall, call)

    def jump_false(self, condition: int, destination: int) -> None:
        """A jump to an instruction, by number, if the value `condition` is false."""
        call = schema.JumpFalseCallT()
        call.conditionIndex = condition
        call.destination = destination
        self._instruct(schema.InstructionCall.JumpFalseCall, call)

    def containers(self, inputs: str, outputs: str, input_names: Sequence[str] = ()) -> None:
        """How inputs and outputs were nested, as JSON, and what the inputs are called."""
        self._method.containerTypes = schema.ContainerTypesT()
        self._method.containerTypes.inputs = inputs
        self._method.containerTypes.outputs = outputs
        self._method.containerTypes.inputNames = list(input_names)

    def build(self) -> Any:
        chain = schema.ChainT()
        chain.inputs = []
        chain.outputs = []
        chain.instructions = self._instructions
        self._method.chains = [chain]
        self._method.bufferSizes = [0, self._planned_nbytes]
        return self._method

    def _add(self, kind: int, table: Any) -> int:
        value = schema.EValueT()
        value.valueType = kind
        value.value = table
        self._method.values.append(value)
        return len(self._method.values) - 1

    def _instruct(self, kind: int, call: Any) -> None:
        instruction = schema.InstructionT()
        instruction.callType = kind
        instruction.call = call
        self._instructions.append(instruction)


def build_program(*methods: MethodBuilder) -> bytes:
    """The bytes of a program file with these methods and no segments."""
    program = schema.ProgramT()
    program.methods = [method.build() for method in methods]
    inline = schema.InlineBytesT()
    inline.data = []
    program.inlineDelegateData = [inline]
    program.segments = []
    builder = flatbuffers.Builder(1024)
    builder.Finish(program.Pack(builder), b"ET12")
    return bytes(builder.Output())


def build_tensor_data(name: str, values: Sequence[float]) -> bytes:
    """The bytes of a data file with one tensor, a row of float32."""
    layout = data_schema.TensorLayoutT()
    layout.scalarType = DTYPES["float32"][0]
    layout.sizes, layout.dimOrder = [len(values)], [0]
    entry = data_schema.TensorDataEntryT()
    entry.key, entry.segmentIndex, entry.tensorLayout = name, 0, layout
    segment = data_schema.TensorDataSegmentT()
    segment.offset, segment.size = 0, 4 * len(values)
    data = data_schema.TensorDataT()
    data.segments, data.namedData = [segment], [entry]
    builder = flatbuffers.Builder(1024)
    builder.Finish(data.Pack(builder), b"FT01")
    root = builder.Output()
    # The header goes between the identifier and the tables.
    inserted = 48
    base = -(-(len(root) + inserted) // _ALIGNMENT) * _ALIGNMENT
    header = struct.pack("<4sI4Q", b"FH01", 40, inserted, len(root), base, segment.size)
    (offset,) = struct.unpack_from("<I", root)
    head = struct.pack("<I", offset + inserted) + bytes(root[4:8]) + header.ljust(inserted, b"\0")
    return (head + bytes(root[8:])).ljust(base, b"\0") + struct.pack(f"<{len(values)}f", *values)


def copy_program(
    sizes: Sequence[int] = (2, 3),
    dtype: str = "float32",
    operator: str = "aten::clone.out",
    **options: Any,
) -> bytes:
    """forward(x) = x; `options` are those of the input."""
    method = MethodBuilder()
    x = method.input(sizes, dtype, **options)
    shape = {"bounded": options.get("bounded", False), "dim_order": options.get("dim_order")}
    y = method.planned(sizes, dtype, **shape)
    method.kernel(operator, x, method.value(None), y, y)
    method.output(y)
    return build_program(method)


def exchange_method(name: str) -> MethodBuilder:
    """name(x): returns what the buffer "held" holds, which becomes x."""
    method = MethodBuilder(name)
    x = method.input([2])
    held = method.tensor([2], buffer_name="held")
    result = method.planned([2])
    method.clone(held, result)
    method.kernel("aten::copy_", held, x, method.value(False), held)
    method.output(result)
    return method


def divide_program() -> bytes:
    """forward(n) = 7 // n, which fails for zero."""
    method = MethodBuilder()
    n, result = method.value(0), method.value(0)
    method.kernel("aten::_local_scalar_dense", method.input([], "int64"), n)
    method.kernel("executorch_prim::floordiv.Scalar", method.value(7), n, result)
    method.output(result)
    return build_program(method)
