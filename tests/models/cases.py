"""Small modules that one program holds together, so that many cost one lowering.

together = Together(cases)
exported = torch.export.export(together, together.inputs())
found = tree_unflatten(flat_outputs, exported.call_spec.out_spec)  # {name of a case: its outputs}
"""

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn


@dataclasses.dataclass(frozen=True)
class Case:
    """One module with its inputs.

    Attributes:
        name: unique among the cases of a program.
        build: makes the module.
        inputs: of each, the sizes of a normal tensor, or the tensor.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: tuple[Any, ...]


class Applies(nn.Module):
    """`function(x, ..., p)`, of inputs and, if a shape is given, a parameter of normal values."""

    def __init__(self, function: Callable[..., Any], *shape: int) -> None:
        super().__init__()
        self.function = function
        self.p = nn.ParameterList([torch.randn(shape)] if shape else [])

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs, *self.p)


class Together(nn.Module):
    """All modules of `cases` side by side, seeded, in eval mode; its inputs are all of theirs."""

    def __init__(self, cases: Sequence[Case], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.cases = tuple(cases)
        torch.manual_seed(1234)
        self.parts = nn.ModuleList(case.build() for case in cases)
        self.dtype = dtype
        self.eval().to(dtype)

    def inputs(self) -> tuple[torch.Tensor, ...]:
        """The same at each call."""
        generator = torch.Generator().manual_seed(0)
        values = []
        for given in (given for case in self.cases for given in case.inputs):
            is_tensor = isinstance(given, torch.Tensor)
            value = given.clone() if is_tensor else torch.randn(given, generator=generator)
            values.append(value.to(self.dtype) if value.is_floating_point() else value)
        return tuple(values)

    def forward(self, *inputs: torch.Tensor) -> dict[str, Any]:
        rest = iter(inputs)
        return {
            case.name: part(*(next(rest) for _ in case.inputs))
            for case, part in zip(self.cases, self.parts, strict=True)
        }

    def exact(self) -> dict[str, Any]:
        """What the cases give in double, from the values that parameters and inputs have here."""
        inputs = [v.double() if v.is_floating_point() else v for v in self.inputs()]
        with torch.no_grad():
            return copy.deepcopy(self).double()(*inputs)
