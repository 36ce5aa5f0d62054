"""scaled_dot_product_attention: its forms in exported programs, and the runtime's operator.

Partitioners do not decompose the operators of `WHOLE`. A backend chooses their implementation
(`passes.attention`); what it leaves alone, Inductor decomposes into matmuls.
"""

import dataclasses
from typing import Any

import torch
from torch.fx import Node

from pteron.backends.aoti.ops.custom_operator import define

_aten = torch.ops.aten
ATTENTION = _aten.scaled_dot_product_attention.default

#: The operator, and those that it becomes when torch chooses an implementation at export.
WHOLE: tuple[torch._ops.OpOverload, ...] = (
    ATTENTION,
    _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
    _aten._scaled_dot_product_efficient_attention.default,
    _aten._scaled_dot_product_cudnn_attention.default,
    _aten._scaled_dot_product_fused_attention_overrideable.default,
)


#: Operators of a compiled graph, and the implementation of attention that each stands for.
WAYS = {
    "pteron.scaled_dot_product_attention.default": "library",
    "flex_attention": "flex",
    str(ATTENTION): "products",
}


@dataclasses.dataclass(frozen=True)
class Attention:
    """The arguments of one call, as of `torch.nn.functional.scaled_dot_product_attention`."""

    query: Node
    key: Node
    value: Node
    mask: Node | None
    dropout_p: float
    is_causal: bool
    scale: float | None
    enable_gqa: bool

    @classmethod
    def of(cls, node: Node) -> "Attention":
        """The arguments of a call of one of `WHOLE`."""
        assert isinstance(node.target, torch._ops.OpOverload)
        names = [argument.name for argument in node.target._schema.arguments]
        given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
        return cls(
            query=given["query"],  # type: ignore[arg-type]
            key=given["key"],  # type: ignore[arg-type]
            value=given["value"],  # type: ignore[arg-type]
            mask=given.get("attn_mask", given.get("attn_bias")),  # type: ignore[arg-type]
            dropout_p=given.get("dropout_p", 0.0),  # type: ignore[arg-type]
            is_causal=given.get("is_causal", False),  # type: ignore[arg-type]
            scale=given.get("scale"),  # type: ignore[arg-type]
            enable_gqa=given.get("enable_gqa", False),  # type: ignore[arg-type]
        )


def _shape(
    query: torch.Tensor, key: Any, value: torch.Tensor, *more: Any, **options: Any
) -> torch.Tensor:
    """Contiguous, with heads and queries in the order of the query's strides."""
    batch, heads, queries, _ = query.shape
    if query.stride(1) < query.stride(2):
        return query.new_empty((batch, queries, heads, value.shape[-1])).transpose(1, 2)
    return query.new_empty((batch, heads, queries, value.shape[-1]))


# The same signature, but not decomposed by tracing, with a float mask.
RUNTIME_ATTENTION = define(
    "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None,"
    " float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False)"
    " -> Tensor",
    _shape,
)
