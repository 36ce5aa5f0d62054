"""Our tables in the words of the stock deserializer, so that two readings can be compared.

Fields are numbered alike in both schemas, so a file does not tell their names. `in_stock_words`
turns a table of ours, with everything below it, into plain data with the stock's names, and
`plain` does so with a table of the stock's.
"""

import dataclasses
from enum import Enum
from typing import Any

from pteron.exir._serialize import schema

# Class -> stock's names of its fields, in our order; classes and fields not here have our names.
_NAMES: dict[type, tuple[str, ...]] = {
    schema.Int: ("int_val",),
    schema.Bool: ("bool_val",),
    schema.Double: ("double_val",),
    schema.String: ("string_val",),
    schema.EValue: ("val",),
    schema.AllocationInfo: ("memory_id", "memory_offset_low", "memory_offset_high"),
    schema.ExtraTensorInfo: (
        "mutable_data_segments_idx",
        "fully_qualified_name",
        "location",
        "device_type",
        "device_index",
    ),
    schema.Tensor: (
        "scalar_type",
        "storage_offset",
        "sizes",
        "dim_order",
        "requires_grad",
        "data_buffer_idx",
        "allocation_info",
        "layout",
        "shape_dynamism",
        "extra_tensor_info",
    ),
    schema.KernelCall: ("op_index", "args"),
    schema.MoveCall: ("move_from", "move_to"),
    schema.JumpFalseCall: ("cond_value_index", "destination_instruction"),
    schema.Instruction: ("instr_args",),
    schema.FrameList: ("items",),
    schema.Frame: ("filename", "lineno", "name", "context"),
    schema.ContainerTypes: ("encoded_inp_str", "encoded_out_str"),
    schema.BufferDevice: ("buffer_idx", "device_type", "device_index"),
    schema.Method: (
        "name",
        "container_meta_type",
        "values",
        "inputs",
        "outputs",
        "chains",
        "operators",
        "delegates",
        "non_const_buffer_sizes",
        "non_const_buffer_device",
    ),
    schema.Program: (
        "version",
        "execution_plan",
        "constant_buffer",
        "backend_delegate_data",
        "segments",
        "constant_segment",
        "mutable_data_segments",
        "named_data",
    ),
}
# Members of unions, which both readers tell apart by class; ours are named as the stock's are.
_UNIONS = (schema.EValue, schema.Instruction)
# Fields at the end of a table that the stock skips.
_OURS_ALONE = {schema.ContainerTypes: 2}


def in_stock_words(table: Any) -> Any:
    """Plain data: dicts by the stock's names, lists, numbers."""
    if dataclasses.is_dataclass(table):
        ours = [field.name for field in dataclasses.fields(table)]
        ours = ours[: len(ours) - _OURS_ALONE.get(type(table), 0)]
        names = _NAMES.get(type(table), ours)
        assert len(names) == len(ours), f"{type(table).__name__} has other fields now: {ours}"
        values = [in_stock_words(getattr(table, name)) for name in ours]
        found = dict(zip(names, values, strict=True))
        if type(table) in _UNIONS:
            found["type"] = type(getattr(table, ours[0])).__name__
        return found
    return _leaf(table, in_stock_words)


def plain(table: Any) -> Any:
    """The same of a table that the stock deserializer made."""
    if dataclasses.is_dataclass(table):
        fields = [field.name for field in dataclasses.fields(table)]
        found = {name: plain(getattr(table, name)) for name in fields}
        if type(table).__name__ in {union.__name__ for union in _UNIONS}:
            found["type"] = type(getattr(table, fields[0])).__name__
        return found
    return _leaf(table, plain)


def differences(ours: Any, stock: Any, path: str = "program") -> list[str]:
    """Where two readings differ: one line each. An absent list is an empty one."""
    if isinstance(ours, dict) and isinstance(stock, dict):
        names = sorted(ours.keys() | stock.keys())
        missing = [f"{path}.{n}: in one reading only" for n in names if (n in ours) != (n in stock)]
        both = [n for n in names if n in ours and n in stock]
        return missing + [d for n in both for d in differences(ours[n], stock[n], f"{path}.{n}")]
    if isinstance(ours, list) and isinstance(stock, list) and len(ours) == len(stock):
        pairs = zip(ours, stock, strict=True)
        return [d for i, (a, b) in enumerate(pairs) for d in differences(a, b, f"{path}[{i}]")]
    if ours == stock or (not ours and not stock and {type(ours), type(stock)} <= _ABSENT):
        return []
    return [f"{path}: ours {ours!r}, stock {stock!r}"]


_ABSENT = {list, str, type(None)}


def _leaf(value: Any, inner: Any) -> Any:
    if isinstance(value, list | tuple):
        return [inner(item) for item in value]
    if isinstance(value, Enum):
        return int(value.value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return [inner(item) for item in value]  # arrays of numbers
