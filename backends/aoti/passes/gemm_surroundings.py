"""What a GEMM of one row can be fused with: RMSNorm before, SiLU and a product or a sum after.

    norm_of(left)              %left = %weight * (%x / sqrt(mean(%x^2) + epsilon))
    gate_of([%a, %b])          silu(%a) * %b
    residual_of(%product)      %product + %other

Views and casts between are ignored: the casts that models write compute in float32 and round to
their dtype, as the kernels do.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import Node

_aten = torch.ops.aten
RESHAPES = (
    _aten._unsafe_view.default,
    _aten.alias.default,
    _aten.reshape.default,
    _aten.squeeze_copy.dims,
    _aten.squeeze.dims,
    _aten.unsqueeze_copy.default,
    _aten.unsqueeze.default,
    _aten.view_copy.default,
    _aten.view.default,
)
_OF_SILU = (
    *(*RESHAPES, _aten._to_copy.default, _aten.mul.Tensor),
    *(_aten.sigmoid.default, _aten.silu.default),
)


class Norm(NamedTuple):
    """RMSNorm of `x`, [..., n], with a `weight`, [n], of its dtype."""

    x: Node
    weight: Node
    epsilon: float


def viewed(node: Node) -> Node:
    """What a view is of: each linear layer has a view of its own of one input."""
    while node.target in RESHAPES:
        node = node.args[0]  # type: ignore[assignment]
    return node


def norm_of(left: Node, users: Sequence[Node]) -> Norm | None:
    """The norm that `left` is, if nothing but `users` uses it."""
    if not _leads_only_to(viewed(left), users, RESHAPES):
        return None
    for weight, rounded in _factors(viewed(left)):
        for wide, factor in _factors(_uncast(rounded)):
            if (epsilon := _inverse_root(wide, factor)) is None:
                continue
            x = _uncast(wide)
            dtypes = {node.meta["val"].dtype for node in (left, x, weight, rounded)}
            is_wide = wide.meta["val"].dtype == torch.float32
            if len(dtypes) == 1 and is_wide and weight.meta["val"].shape == _last(x):
                return Norm(x, weight, epsilon)
    return None


def gate_of(products: Sequence[Node]) -> tuple[Node, bool] | None:
    """The node silu(a) * b of two products, and whether `a` is the second."""
    for a, b in (products, products[::-1]):
        gate = _only_use(b)
        for activated, other in _factors(gate):
            if viewed(other) is b and (x := _silu_of(activated)) and viewed(x) is a:
                if gate is not None and _leads_only_to(a, [gate], _OF_SILU):
                    return gate, a is not products[0]
    return None


def residual_of(product: Node) -> tuple[Node, Node] | None:
    """The sum of the product and another node of its size and dtype, and that node."""
    total = _only_use(product)
    if total is None or total.target is not _aten.add.Tensor or total.kwargs:
        return None
    others = [node for node in total.args if isinstance(node, Node) and viewed(node) is not product]
    if len(others) != 1 or len(total.all_input_nodes) != 2:
        return None
    values = [node.meta["val"] for node in (total, others[0])]
    same = values[0].shape == values[1].shape and values[0].numel() == product.meta["val"].numel()
    return (total, others[0]) if same and len({v.dtype for v in values}) == 1 else None


def _factors(node: Node | None) -> Iterator[tuple[Node, Node]]:
    """The operands of a multiplication, in both orders."""
    if node is not None and node.target is _aten.mul.Tensor:
        first, second = node.args
        if isinstance(first, Node) and isinstance(second, Node):
            yield from ((first, second), (second, first))


def _uncast(node: Node) -> Node:
    is_cast = node.target is _aten._to_copy.default
    return node.args[0] if is_cast else node  # type: ignore[return-value]


def _last(node: Node) -> torch.Size:
    return node.meta["val"].shape[-1:]


def _inverse_root(wide: Node, factor: Node) -> float | None:
    """`epsilon` of 1 / sqrt(mean(wide^2) + epsilon), the mean of each row."""
    if factor.target is not _aten.rsqrt.default:
        return None
    total: Any = factor.args[0]
    mean, epsilon = total.args[:2] if total.target is _aten.add.Tensor else (total, 0.0)
    if not isinstance(epsilon, float) or mean.target is not _aten.mean.dim:
        return None
    square, dims = mean.args[:2]
    is_row = len(dims) == 1 and dims[0] in (-1, wide.meta["val"].dim() - 1)
    squares = ((_aten.pow.Tensor_Scalar, (wide, 2)), (_aten.mul.Tensor, (wide, wide)))
    return epsilon if is_row and (square.target, square.args) in squares else None


def _silu_of(node: Node) -> Node | None:
    """`x` if the node is silu(x)."""
    node = _uncast(node)
    if node.target is _aten.silu.default:
        return _uncast(node.args[0])  # type: ignore[arg-type]
    for x, factor in _factors(node):
        if factor.target is _aten.sigmoid.default and factor.args[0] is x:
            return _uncast(x)
    return None


def _only_use(node: Node) -> Node | None:
    """The one node that uses it, or a view of it."""
    while len(node.users) == 1:
        (user,) = node.users
        if user.target not in RESHAPES:
            return user
        node = user
    return None


def _leads_only_to(node: Node, ends: Sequence[Node], through: Sequence[Any]) -> bool:
    """Whether all that is computed of `node` are `ends`, by operators `through`."""
    pending = [node]
    while pending:
        users = [user for user in pending.pop().users if user not in ends]
        if any(user.target not in through for user in users):
            return False
        pending += users
    return True
