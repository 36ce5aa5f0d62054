"""int8 and uint8 constants, as quantization stores weights."""

from collections.abc import Callable
from typing import Any

import torch

from pteron.backends.aoti.inductor.patches import Context, wrapped

_BYTES = (torch.int8, torch.uint8)
#: Elements below which a float32 weight is no loss.
_FEW = 1 << 12


def keep_dequantization_unfolded() -> Context:
    """Their dequantization is not constant-folded, which would take two or four times the memory.
    (Inductor makes that exception for bfloat16.)"""
    from torch._inductor.constant_folding import ConstantFolder

    def is_kept(is_impure: Callable[..., bool], folder: Any, node: torch.fx.Node) -> bool:
        return _dequantizes(node) or is_impure(folder, node)

    return wrapped(ConstantFolder, "is_impure", is_kept)


def _dequantizes(node: torch.fx.Node) -> bool:
    if node.target is not torch.ops.prims.convert_element_type.default:
        return False
    source, dtype = node.args
    value = source.meta.get("val") if isinstance(source, torch.fx.Node) else None
    return (
        isinstance(value, torch.Tensor)
        and value.dtype in _BYTES
        and isinstance(dtype, torch.dtype)
        and dtype.is_floating_point
        and value.numel() >= _FEW
    )
