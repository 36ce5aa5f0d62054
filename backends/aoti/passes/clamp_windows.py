"""Clamps pooling windows to the size of the padded input.

    avg_pool2d(%x, [1280, 1280], ceil_mode=True)    ==>    avg_pool2d(%x, [7, 7], ceil_mode=True)

for %x of 7 by 7: Inductor loops over the whole window, also out of bounds. (torch rejects such
windows in 3D pooling.)
"""

from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult

_aten = torch.ops.aten
_WINDOWS = frozenset({_aten.avg_pool2d.default, _aten.max_pool2d_with_indices.default})


class ClampWindowsPass(PassBase):
    """See the module's docstring. Submodules (branches) are rewritten, too."""

    def call(self, graph_module: GraphModule) -> PassResult:
        modified = False
        for module in graph_module.modules():
            if isinstance(module, GraphModule):
                for node in module.graph.nodes:
                    if node.op == "call_function" and node.target in _WINDOWS:
                        modified |= _clamp(node)
                module.recompile()
        return PassResult(graph_module, modified)


def _clamp(node: Node) -> bool:
    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    given: dict[str, Any] = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    window = both_dims(given["kernel_size"])
    padding, dilation = both_dims(given.get("padding", 0)), both_dims(given.get("dilation", 1))
    sizes = given["self"].meta["val"].shape[-2:]
    clamped = [
        min(taps, _taps(size + 2 * pad, step)) if isinstance(size, int) else taps
        for taps, size, pad, step in zip(window, sizes, padding, dilation, strict=True)
    ]
    if clamped == window:
        return False
    given |= {"kernel_size": clamped, "stride": given.get("stride") or window}
    node.args = tuple(given.pop(name) for name in names[:3])
    node.kwargs = given
    return True


def both_dims(value: Any) -> list[Any]:
    """Expands a value for both dimensions."""
    values = list(value) if isinstance(value, list | tuple) else [value]
    return values * 2 if len(values) == 1 else values


def _taps(size: int, step: int) -> int:
    """The fewest taps, `step` apart, that reach over `size` elements: then there is one window."""
    return -(-(size - 1) // step) + 1
