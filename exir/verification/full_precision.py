"""Disables reduced precision in matmuls and convolutions."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

# Type checkers do not know the properties of these modules.
_BACKENDS: Any = torch.backends
_CUDA = _BACKENDS.cuda.matmul


@contextlib.contextmanager
def full_precision_matmuls() -> Iterator[None]:
    """Inside, float32 matmuls and convolutions use neither TF32 nor bfloat16, float16 and bfloat16
    accumulate in float32, and autocast is off. These settings are process-wide: other threads are
    affected. They are restored on exit."""
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
