"""Errors of lowering: cause, operator, source line, and what to try."""

import concurrent.futures
import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from pteron.backends.aoti import inductor
from pteron.backends.aoti.ops import shim_list
from pteron.exir.graph.exported_program import source_line
from pteron.exir.undelegated import UnsupportedOperatorsError


class InductorFailedError(RuntimeError):
    """Inductor failed on a partition with every set of fallback options."""


def check_functions(
    backend: str,
    device: str,
    program: ExportedProgram,
    names: Collection[str],
    proxied: Collection[str] = (),
    own: Collection[str] = (),
) -> None:
    """Raises UnsupportedOperatorsError, listing all, unless the runtime or the caller (`own`) has
    the functions `names` and no operator needs a proxy executor."""
    missing = sorted(set(names) - shim_list.load(device).versions.keys() - set(own))
    if not missing and not proxied:
        return
    lines = [
        f"  {name}: not in the shim lists of {device}"
        + _calls(program, functools.partial(_is_called, name, device))
        for name in missing
    ]
    lines += [
        f"  {name}: has no C function at all"
        + _calls(program, functools.partial(_is_named, name.replace("::", ".")))
        for name in sorted(proxied)
    ]
    raise UnsupportedOperatorsError(
        f"{backend}: the compiled code would call functions that the runtime lacks:\n"
        + "\n".join(lines)
        + "\ntry:  leaving these operators to another backend (the partitioner's leave_out);"
        "\n      rewriting the model without them."
    )


def _is_called(function: str, device: str, op: torch._ops.OpOverload) -> bool:
    return inductor.c_function(op, device) == function


def _is_named(name: str, op: torch._ops.OpOverload) -> bool:
    """Whether it is the operator, with or without its overload."""
    return name in (str(op), str(op.overloadpacket))


def inductor_error(
    backend: str, program: ExportedProgram, failure: Exception
) -> InductorFailedError:
    """The error for a failure of Inductor, with the operator if known."""
    said = str(failure)
    first = said.strip().partition("\n")[0]
    found = re.search(r"^\s*target: (\S+)", said, re.MULTILINE)
    at = ""
    if found:
        at = f" at {found[1]}{_calls(program, functools.partial(_is_named, found[1]))}"
    return InductorFailedError(
        f"{backend}: Inductor failed{at}: {type(failure).__name__}: {first}\n"
        "try:  leaving that operator to another backend (the partitioner's leave_out); other "
        "options of the backend;\n      rewriting the model without it."
    )


def _calls(program: ExportedProgram, is_meant: Callable[[torch._ops.OpOverload], bool]) -> str:
    """The first three such calls of the partition: ` (%mm, model.py:41)`."""
    nodes = [
        node
        for node in program.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload) and is_meant(node.target)
    ]
    shown = [", ".join(filter(None, (f"%{n.name}", source_line(n)))) for n in nodes[:3]]
    return f" ({'; '.join(shown)}{'; ...' if len(nodes) > 3 else ''})" if nodes else ""


def raise_together(jobs: Sequence[concurrent.futures.Future[Any]]) -> None:
    """Raises one error with the failures of all partitions."""
    errors = [error for job in jobs if (error := job.exception()) is not None]
    if not errors:
        return
    refused = [error for error in errors if isinstance(error, UnsupportedOperatorsError)]
    failed = [error for error in errors if isinstance(error, InductorFailedError)]
    unknown = [error for error in errors if error not in refused + failed]
    first = [*unknown, *failed, *refused][0]
    texts = dict.fromkeys(str(error) for error in errors)
    if unknown or len(texts) == 1:
        raise first
    raise type(first)("\n".join(texts)) from first.__cause__
