"""Dtypes of tensors, read from the runtime's table.

`runtime/core/scalar_types.inc` lists every dtype of programs. This module parses it, so that
lowering and runtime cannot disagree::

    scalar_type(torch.bfloat16).number    # 15, the value in files
    scalar_type_by_number(6).torch_name   # "float32"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_TABLE = Path(__file__).parents[2] / "runtime" / "core" / "scalar_types.inc"
_LINE = re.compile(r"^PTERON_SCALAR_TYPE\((\w+), (\d+), (\d+), (\w+), \d+, \d+\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ScalarType:
    """One line of the table.

    Attributes:
      name: the runtime's name, such as `BFloat16`.
      number: the value in files, which is torch's.
      nbytes: bytes of one element.
      torch_name: such as `bfloat16`.
    """

    name: str
    number: int
    nbytes: int
    torch_name: str


@cache
def scalar_types() -> tuple[ScalarType, ...]:
    """Every element type that a program can hold, in the table's order."""
    rows = _LINE.findall(_TABLE.read_text(encoding="utf-8"))
    if not rows:
        raise RuntimeError(f"{_TABLE} has no PTERON_SCALAR_TYPE lines")
    return tuple(
        ScalarType(name, int(number), int(nbytes), torch_name)
        for name, number, nbytes, torch_name in rows
    )


@cache
def scalar_type(dtype: torch.dtype) -> ScalarType:
    """The table entry of a torch dtype. TypeError for an unsupported one."""
    name = str(dtype).removeprefix("torch.")
    for row in scalar_types():
        if row.torch_name == name:
            return row
    known = ", ".join(row.torch_name for row in scalar_types())
    raise TypeError(f"a program cannot hold tensors of {dtype}; it can hold: {known}")


@cache
def scalar_type_by_number(number: int) -> ScalarType:
    """The table entry of a value in files. ValueError for an unknown one."""
    for row in scalar_types():
        if row.number == number:
            return row
    raise ValueError(f"{number} is no scalar type of the program format")


def torch_dtype(number: int) -> torch.dtype:
    """The torch dtype of a value in files."""
    import torch

    return getattr(torch, scalar_type_by_number(number).torch_name)
