"""Translates the dataclasses of `schema.py` to FlatBuffers bytes and back.

Works by name: dataclass `Tensor` is table `Tensor` (class `TensorT` of the generated object
API), field `data_index` is `dataIndex` there, and the class of a value is its member of a union.
"""

import dataclasses
import enum
import types
import typing
from functools import cache
from typing import Any

import flatbuffers
import numpy as np

from pteron.exir._serialize import schema


@cache
def _fields(cls: type) -> tuple[tuple[str, str, Any], ...]:
    """Of each field its name, its name in the object API, and its type."""
    hints = typing.get_type_hints(cls)
    return tuple(
        (name, name[0] + name.title().replace("_", "")[1:], hints[name])
        for name in (field.name for field in dataclasses.fields(cls))
    )


@cache
def _generated(root: type) -> types.ModuleType:
    """The generated module that holds the tables of a root."""
    if root is schema.Program:
        import pteron.runtime.schema.program_generated as program_generated

        return program_generated
    if root is schema.TensorData:
        import pteron.runtime.schema.tensor_data_generated as tensor_data_generated

        return tensor_data_generated
    raise TypeError(f"{root.__name__} is the root of no schema")


def _to_object(value: Any, module: types.ModuleType) -> Any:
    if isinstance(value, list):
        return [_to_object(item, module) for item in value]
    if isinstance(value, bytes):
        return np.frombuffer(value, dtype=np.uint8)
    cls: type = type(value)
    if not dataclasses.is_dataclass(cls):
        return value
    table = getattr(module, cls.__name__ + "T")()
    for name, generated_name, _ in _fields(cls):
        item = getattr(value, name)
        setattr(table, generated_name, _to_object(item, module))
        if cls in (schema.EValue, schema.Instruction):
            union = module.Value if cls is schema.EValue else module.InstructionCall
            setattr(table, generated_name + "Type", getattr(union, type(item).__name__))
    return table


def to_flatbuffer(root: schema.Program | schema.TensorData, identifier: bytes) -> bytes:
    """Packs a root table. The same value always gives the same bytes."""
    builder = flatbuffers.Builder(1 << 16)
    cls: type = type(root)
    packed = _to_object(root, _generated(cls)).Pack(builder)
    builder.Finish(packed, file_identifier=identifier)
    return bytes(builder.Output())


def _from_object(value: Any, hint: Any) -> Any:
    """`value` of the object API as a field of type `hint` has it."""
    if isinstance(value, list):
        return [_from_object(item, None) for item in value]
    if isinstance(value, np.ndarray):
        return value.tobytes() if hint is bytes else value.tolist()
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, int | float):
        return hint(value) if isinstance(hint, enum.EnumType) else value
    cls = getattr(schema, type(value).__name__.removesuffix("T"), None)
    if cls is None:
        return value
    items = ((name, getattr(value, generated), of) for name, generated, of in _fields(cls))
    # What is absent has its default.
    return cls(**{name: _from_object(item, of) for name, item, of in items if item is not None})


def from_flatbuffer(root: type, data: bytes) -> Any:
    """Unpacks the bytes of a root table. Structure is trusted: check the digest first."""
    module = _generated(root)
    table = getattr(module, root.__name__).GetRootAs(data, 0)
    try:
        return _from_object(getattr(module, root.__name__ + "T").InitFromObj(table), root)
    except TypeError as error:
        raise ValueError(f"the file is damaged or of a later version: {error}") from error
