"""Arguments of the public API, read and checked."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from torch.export import ExportedProgram

from pteron.exir.backend.partitioner import Partitioner

Programs: TypeAlias = ExportedProgram | Mapping[str, ExportedProgram]

DEFAULT_METHOD = "forward"


def methods_of(programs: Programs) -> dict[str, ExportedProgram]:
    """Programs by method."""
    if not isinstance(programs, Mapping):
        programs = {DEFAULT_METHOD: programs}
    for name, program in programs.items():
        if not isinstance(program, ExportedProgram):
            raise TypeError(
                f"method {name!r}: found a {type(program).__name__}, expected an ExportedProgram.\n"
                f"try:  torch.export.export(module.eval(), (x,)), or all in one call:\n"
                f'      pteron.export(module, (x,), "model.pte")'
            )
    if not programs:
        raise ValueError("there are no methods to lower")
    return dict(programs)


def per_method(choice: Any, methods: Mapping[str, Any], what: str) -> dict[str, list[Any]]:
    """`choice` as a list per method."""

    def listed(item: Any) -> list[Any]:
        if item is None:
            return []
        return list(item) if isinstance(item, Sequence) and not isinstance(item, str) else [item]

    if not isinstance(choice, Mapping):
        return {method: listed(choice) for method in methods}
    unknown = sorted(choice.keys() - methods.keys())
    if unknown:
        raise ValueError(f"{what} names {unknown}, but the methods are {sorted(methods)}")
    return {method: listed(choice.get(method)) for method in methods}


def check_constant_methods(
    constant_methods: Mapping[str, Any] | None, methods: Mapping[str, Any]
) -> dict[str, Any]:
    """The constant methods as a dict; ValueError if a name is also a method's."""
    both = sorted((constant_methods or {}).keys() & methods.keys())
    if both:
        raise ValueError(f"{both} are both methods and constant methods; names must differ")
    return dict(constant_methods or {})


def check_partitioners(partitioners: dict[str, list[Any]]) -> dict[str, list[Partitioner]]:
    """Partitioners by method; TypeError for anything else."""
    for found in [one for chosen in partitioners.values() for one in chosen]:
        if not isinstance(found, Partitioner):
            name = getattr(found, "__name__", "CpuPartitioner")
            raise TypeError(
                f"partitioner: found {found!r}, expected instances of Partitioner.\n"
                f"try:  partitioner=[{name}()]"
            )
    return partitioners
