"""Translates the dataclasses of `schema.py` to FlatBuffers bytes and back.

Works by name: dataclass `Tensor` is table `Tensor` (class `TensorT` of the generated object
API), field `data_index` is `dataIndex` there, and the class of a value is its member of a union.
"""

import dataclasses
import types
import typing
from functools import cache
from typing import Any

import flatbuffers
import numpy as np

from pteron.exir._serialize import schema


@dataclasses.dataclass(frozen=True)
class _Field:
    """How one field of a dataclass travels.

    Attributes:
      name: in the dataclass.
      generated_name: in the object API.
      element: class of the value, or of each item of a vector; for a table, None.
      tables: what tables the value (or item) can be; more than one means a union.
      is_vector: whether it is a vector.
      is_optional: whether absence is kept as None.
    """

    name: str
    generated_name: str
    element: type | None
    tables: tuple[type, ...]
    is_vector: bool
    is_optional: bool


def _describe(name: str, hint: Any) -> _Field:
    args = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    is_optional = type(None) in args
    args = tuple(arg for arg in args if arg is not type(None))
    is_vector = typing.get_origin(args[0]) is list
    if is_vector:
        args = typing.get_args(args[0])
    tables = tuple(arg for arg in args if isinstance(arg, type) and dataclasses.is_dataclass(arg))
    head, *tail = name.split("_")
    generated_name = head + "".join(part.capitalize() for part in tail)
    return _Field(
        name,
        generated_name,
        None if tables else args[0],
        tables,
        is_vector,
        is_optional,
    )


@cache
def _fields(cls: type) -> tuple[_Field, ...]:
    hints = typing.get_type_hints(cls)
    return tuple(_describe(field.name, hints[field.name]) for field in dataclasses.fields(cls))


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


def _union_number(module: types.ModuleType, owner: type, member: type) -> int:
    union = module.Value if owner is schema.EValue else module.InstructionCall
    return getattr(union, member.__name__)


def _to_object(value: Any, module: types.ModuleType) -> Any:
    if isinstance(value, list):
        return [_to_object(item, module) for item in value]
    if isinstance(value, bytes):
        return np.frombuffer(value, dtype=np.uint8)
    if not dataclasses.is_dataclass(value):
        return value
    table = getattr(module, type(value).__name__ + "T")()
    cls: type = type(value)
    for field in _fields(cls):
        item = getattr(value, field.name)
        if len(field.tables) > 1:
            number = _union_number(module, type(value), type(item))
            setattr(table, field.generated_name + "Type", number)
        setattr(table, field.generated_name, _to_object(item, module))
    return table


def to_flatbuffer(root: schema.Program | schema.TensorData, identifier: bytes) -> bytes:
    """Packs a root table. The same value always gives the same bytes."""
    builder = flatbuffers.Builder(1 << 16)
    cls: type = type(root)
    packed = _to_object(root, _generated(cls)).Pack(builder)
    builder.Finish(packed, file_identifier=identifier)
    return bytes(builder.Output())


def _from_field(value: Any, field: _Field) -> Any:
    if value is None:
        if field.is_optional:
            return None
        return [] if field.is_vector else field.element() if field.element else None
    if field.is_vector:
        item = dataclasses.replace(field, is_vector=False)
        return [_from_field(element, item) for element in value]
    if field.tables:
        return _from_table(value, field.tables)
    if field.element is str:
        return value.decode("utf-8")
    assert field.element is not None
    return field.element(value)


def _from_table(value: Any, tables: tuple[type, ...]) -> Any:
    name = type(value).__name__.removesuffix("T")
    table = next((table for table in tables if table.__name__ == name), None)
    if table is None:
        raise ValueError(f"{name} is not expected here; the file is damaged or of a later version")
    return table(
        **{
            field.name: _from_field(getattr(value, field.generated_name), field)
            for field in _fields(table)
        }
    )


def from_flatbuffer(root: type, data: bytes) -> Any:
    """Unpacks the bytes of a root table. Structure is trusted: check the digest first."""
    module = _generated(root)
    table = getattr(module, root.__name__).GetRootAs(data, 0)
    return _from_table(getattr(module, root.__name__ + "T").InitFromObj(table), (root,))
