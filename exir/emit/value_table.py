"""The numbered values of one method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from pteron.exir._serialize import schema
from pteron.exir.scalar_types import scalar_type

__all__ = ["ValueTable", "literal"]


def literal(value: Any, what: str = "a constant") -> schema.Value:
    """The file's form of a plain Python value. TypeError, naming `what`, for any other."""
    match value:
        case None:
            return schema.Null()
        case bool():
            return schema.Bool(value)
        case int():
            return schema.Int(value)
        case float():
            return schema.Double(value)
        case str():
            return schema.String(value)
        case torch.dtype():
            return schema.Int(scalar_type(value).number)
        case torch.memory_format():
            formats = [
                torch.contiguous_format,
                torch.preserve_format,
                torch.channels_last,
            ]
            return schema.Int(formats.index(value))
        case torch.layout():
            return schema.Int(0)
        case torch.device():
            return schema.Null()
    raise TypeError(
        f"{what} is of {type(value).__name__} ({value!r}); a program holds tensors, numbers, bools,"
        f" strings and None"
    )


class ValueTable:
    """Values in the order in which they are added. Equal literals share a number."""

    def __init__(self) -> None:
        self.values: list[schema.EValue] = []
        self._literals: dict[object, int] = {}

    def add(self, value: schema.Value) -> int:
        """A value of its own; returns its number."""
        self.values.append(schema.EValue(value))
        return len(self.values) - 1

    def literal(self, value: Any) -> int:
        """The number of a constant that nothing writes."""
        stored = literal(value)
        # repr tells -0.0 from 0.0 and gives equal keys to equal NaNs.
        return self._shared(stored, repr(vars(stored).get("value")))

    def int_list(self, indices: Sequence[int]) -> int:
        return self._shared(schema.IntList(list(indices)), tuple(indices))

    def double_list(self, values: Sequence[float]) -> int:
        return self._shared(schema.DoubleList([float(v) for v in values]), repr(list(values)))

    def bool_list(self, values: Sequence[bool]) -> int:
        return self._shared(schema.BoolList(list(values)), tuple(values))

    def tensor_list(self, indices: Sequence[int]) -> int:
        return self._shared(schema.TensorList(list(indices)), tuple(indices))

    def optional_tensor_list(self, indices: Sequence[int]) -> int:
        return self._shared(schema.OptionalTensorList(list(indices)), tuple(indices))

    def constant_tensor(self, tensor: schema.Tensor) -> int:
        return self._shared(tensor, (tensor.scalar_type, *tensor.sizes, tensor.data_index))

    def _shared(self, value: schema.Value, key: object) -> int:
        typed_key = (type(value), key)
        if typed_key not in self._literals:
            self._literals[typed_key] = self.add(value)
        return self._literals[typed_key]
