"""Products as precise as their operands, whatever is set for speed."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

# What its modules have by property, type checkers do not see.
_BACKENDS: Any = torch.backends
_CUDA = _BACKENDS.cuda.matmul


@contextlib.contextmanager
def exact_products() -> Iterator[None]:
    """Products and convolutions of float32 are in float32, not TF32 or bfloat16, and halves are
    summed in float32, without autocast. Torch's settings come back afterwards; they are the
    process's, so that other threads see the change."""
    backends = (
        *(_CUDA, _BACKENDS.cudnn.conv, _BACKENDS.cudnn.rnn),
        *(getattr(_BACKENDS.mkldnn, op) for op in ("matmul", "conv", "rnn")),
    )
    changes: list[tuple[Any, str, object]] = [(b, "fp32_precision", "ieee") for b in backends]
    sums = [f"allow_{half}_reduced_precision_reduction" for half in ("fp16", "bf16")]
    changes += [(_CUDA, name, False) for name in ("allow_fp16_accumulation", *sums)]
    with contextlib.ExitStack() as restored:
        for owner, name, value in changes:
            before = getattr(owner, name)
            if name in sums and hasattr(owner, f"{name}_split_k"):
                before = before, getattr(owner, f"{name}_split_k")
            restored.callback(setattr, owner, name, before)
            setattr(owner, name, value)
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                restored.enter_context(torch.autocast(device, enabled=False))
        yield
