"""Code for an Apple GPU, written on any machine.

Inductor's wrapper for such a GPU has the text of its kernels in it, so nothing is compiled here.
What it asks of the GPU is answered by a table, on a Mac too: all machines make the same program.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from pteron.backends.aoti.inductor.absent_gpu import fakes_of_any_device
from pteron.backends.aoti.inductor.patched import patched

#: Decides into how many parts reductions are cut, never what is computed; that of an M1.
_CORES = 8


@contextlib.contextmanager
def absent_mps() -> Iterator[None]:
    """Inside, Inductor generates code for an Apple GPU and asks none."""
    from torch._inductor.fx_passes import joint_graph

    # Patterns of graphs are traced once in a process. They are the same on the host.
    joint_graph.lazy_init(torch.device("cpu"))
    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(joint_graph, "lazy_init", _nothing))
        stack.enter_context(patched(torch.backends.mps, "is_available", lambda: True))
        stack.enter_context(patched(torch.backends.mps, "is_macos_or_newer", _is_up_to_macos_14))
        stack.enter_context(patched(torch.mps, "is_available", lambda: True))
        stack.enter_context(patched(torch.backends.mps, "get_core_count", lambda: _CORES))
        stack.enter_context(fakes_of_any_device())
        yield


def _is_up_to_macos_14(major: int, minor: int) -> bool:
    return (major, minor) <= (14, 0)


def _nothing(*_: Any, **__: Any) -> None:
    pass
