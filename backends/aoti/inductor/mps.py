"""GPU-free code generation for Apple GPUs.

Inductor's wrapper contains the source of Metal kernels, so nothing is compiled here. Queries of the
GPU return constants, on a Mac too: all machines generate the same program.
"""

import torch

from pteron.backends.aoti.inductor.absent_gpu import (
    fake_tensors_of_any_device,
    patterns_traced_on_the_host,
)
from pteron.backends.aoti.inductor.patches import Context, patched, together

#: Those of an M1. They affect how reductions are split, never results.
_CORES = 8


def absent_mps() -> Context:
    """Inside, Inductor generates code for an Apple GPU without querying one."""
    return together(
        patterns_traced_on_the_host(),
        patched(torch.backends.mps, "is_available", lambda: True),
        patched(torch.backends.mps, "is_macos_or_newer", lambda *version: version <= (14, 0)),
        patched(torch.mps, "is_available", lambda: True),
        patched(torch.backends.mps, "get_core_count", lambda: _CORES),
        fake_tensors_of_any_device(),
    )
