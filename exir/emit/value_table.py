"""The value table of one method."""

from typing import Any

import torch

from pteron.exir._serialize import schema


def literal(value: Any, what: str = "a constant") -> schema.Value:
    """The serialized form of a plain Python value. TypeError, naming `what`, for other types."""
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
        case torch.memory_format():
            formats = [
                torch.contiguous_format,
                torch.preserve_format,
                torch.channels_last,
            ]
            return schema.Int(formats.index(value))
    raise TypeError(
        f"{what} is of {type(value).__name__} ({value!r}); a program holds tensors, numbers, bools,"
        f" strings and None"
    )


class ValueTable:
    """Values in insertion order. Equal literals share an index."""

    def __init__(self) -> None:
        self.values: list[schema.EValue] = []
        self._literals: dict[object, int] = {}

    def add(self, value: schema.Value) -> int:
        """Adds a value; returns its index."""
        self.values.append(schema.EValue(value))
        return len(self.values) - 1

    def literal(self, value: Any) -> int:
        """The index of a constant that is never mutated."""
        stored = literal(value)
        # repr tells -0.0 from 0.0 and gives equal keys to equal NaNs.
        key = type(stored), repr(vars(stored).get("value"))
        if key not in self._literals:
            self._literals[key] = self.add(stored)
        return self._literals[key]
