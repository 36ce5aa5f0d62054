"""Defines the runtime's own operators, which passes insert into graphs."""

from collections.abc import Callable
from typing import Any

import torch

_LIBRARY = torch.library.Library("pteron", "FRAGMENT")


def define(
    schema: str, shape: Callable[..., Any], compute: Callable[..., Any] | None = None
) -> torch._ops.OpOverload:
    """An operator of `torch.ops.pteron`.

    Args:
        schema: as `torch.library.Library.define` takes it.
        shape: makes empty results of fake tensors.
        compute: on every device, in eager; None for an operator that only graphs have.
    """
    name = _LIBRARY.define(schema)
    torch.library.register_fake(f"pteron::{name}", shape, lib=_LIBRARY)
    if compute is not None:
        _LIBRARY.impl(name, compute, "CompositeExplicitAutograd")
    op: torch._ops.OpOverload = getattr(torch.ops.pteron, name).default
    return op
