"""Small functions in one program, each with inputs of its own.

    functions = Together([Case("rows", lambda x, i: x[i.item()], (x, index), hostile=[...])])
    outputs = functions.outputs(found)      # by the name of the case

What most of them cost to lower is the same for all in one program. One whose input is hostile ends
the run, with an error that has the line of its function in it.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn


@dataclasses.dataclass(frozen=True)
class Case:
    """A function and what it is called with.

    Attributes:
        function: of `state` and the arguments; returns a tensor.
        arguments: tensors for which it does not fail.
        others: arguments at the ends of what is allowed, and beyond: eager says which they are.
        state: buffers, which it may change.
        says: what the error calls the number that is out of bounds.
        refuses: arguments that are refused though eager takes them, or ends the process.
    """

    name: str
    function: Callable[..., torch.Tensor]
    arguments: tuple[torch.Tensor, ...]
    others: Sequence[tuple[torch.Tensor, ...]] = ()
    state: Mapping[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    says: str = ""
    refuses: Callable[..., bool] = lambda *arguments: False


class _Member(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case
        for name, value in case.state.items():
            self.register_buffer(name, value.clone())

    def forward(self, *arguments: torch.Tensor) -> torch.Tensor:
        result = self.case.function(*([self] if self.case.state else []), *arguments)
        assert isinstance(result, torch.Tensor)
        return result


class Together(nn.Module):
    """Takes the arguments of all cases and returns all their results."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.cases = list(cases)
        self.members = nn.ModuleList(map(_Member, cases))

    def forward(self, arguments: list[torch.Tensor]) -> list[torch.Tensor]:
        left = list(arguments)
        results = []
        for case, member in zip(self.cases, self.members, strict=True):
            own, left = left[: len(case.arguments)], left[len(case.arguments) :]
            results.append(member(*own))
        return results

    def arguments(self, name: str = "", other: Sequence[torch.Tensor] = ()) -> list[torch.Tensor]:
        """Of all cases those for which none fails, but for the named one `other`."""
        return [
            value.clone()  # torch.export takes one tensor given twice for one input
            for case in self.cases
            for value in (other if case.name == name else case.arguments)
        ]

    def of_case(self, name: str, results: Sequence[Any]) -> Any:
        """What the named case returned."""
        return results[[case.name for case in self.cases].index(name)]


def eager(case: Case, arguments: Sequence[torch.Tensor]) -> torch.Tensor | Exception:
    """What torch returns for the arguments, or raises."""
    try:
        return _Member(case)(*(value.clone() for value in arguments))
    except Exception as error:
        return error
