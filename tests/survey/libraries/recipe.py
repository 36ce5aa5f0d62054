"""What a library's model is exported with."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn


class Absent(Exception):
    """The library is not installed, or its release has no such model."""


@dataclasses.dataclass
class Recipe:
    """A module in eval mode and a call of it.

    Attributes:
        dynamic_shapes: as torch.export takes them.
        other: arguments of other sizes that the program has to take, too.
    """

    module: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    dynamic_shapes: Any = None
    other: tuple[Any, ...] | None = None

    def calls(self) -> list[tuple[tuple[Any, ...], Mapping[str, Any]]]:
        """Arguments, and keyword arguments, of each call that the program has to take."""
        return [(args, self.kwargs) for args in (self.args, self.other) if args is not None]


Models = Mapping[str, Callable[[], Recipe]]


def image(*sizes: int) -> torch.Tensor:
    """Random values between 0 and 1."""
    return torch.rand(*sizes, generator=torch.Generator().manual_seed(0))


def noise(*sizes: int) -> torch.Tensor:
    """Normally distributed values."""
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(0))


def each(names: str, make: Callable[[str], Recipe]) -> dict[str, Callable[[], Recipe]]:
    """The same recipe for several names."""
    return {name: functools.partial(make, name) for name in names.split()}


class Calls(nn.Module):
    """A function as a module; `parts` are its parameters' owners."""

    def __init__(self, function: Callable[..., Any], *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self._function = function

    def forward(self, *args: Any) -> Any:
        return self._function(*self.parts, *args)


def calls(
    function: Callable[..., Any], *args: Any, parts: Iterable[nn.Module] = ()
) -> Callable[[], Recipe]:
    """A recipe for a call of a function."""
    return lambda: Recipe(Calls(function, *parts).eval(), args)
