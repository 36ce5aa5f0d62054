"""Decomposes complex tensors into real ones.

before:  z = view_as_complex(x); w = z * rotation; return view_as_real(w)
after:   re = x[..., 0] * rotation[..., 0] - ...; return stack([re, im], -1)

Backends compile real dtypes and call a fallback kernel for each complex operator, and a program
file has no complex tensors. Operators without a rule here, such as FFTs, stay complex, between
`view_as_complex` and `view_as_real`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node
from torch.utils import _pytree as pytree

from pteron.exir._program import (
    CONSTANT_KINDS,
    constant_tensor,
    copy_program,
    input_specs_by_name,
    mutation_targets,
)
from pteron.exir.decompositions import Table, decompose_nodes, decomposition_table

aten = torch.ops.aten
Tensor = torch.Tensor


def decompose_complex_tensors(program: ExportedProgram) -> ExportedProgram:
    """The program with real operators and constants, where rules exist."""
    if not any(_is_complex(node) for node in program.graph.nodes):
        return program
    program = _with_real_constants(copy_program(program))
    program = decompose_nodes(program, _is_of_complex, {**decomposition_table(), **_RULES})
    program = copy_program(program)
    _cancel_views(program)
    program.graph_module.recompile()
    return program


def _is_complex(value: Any) -> bool:
    if isinstance(value, Node):
        return any(_is_complex(item) for item in pytree.tree_leaves(value.meta.get("val")))
    return isinstance(value, Tensor) and value.is_complex()


def _is_of_complex(node: Node) -> bool:
    return node.target in _RULES and any(map(_is_complex, (node, *node.all_input_nodes)))


def _with_real_constants(program: ExportedProgram) -> ExportedProgram:
    """Complex constants become real ones with a last dimension of 2; mutated ones stay."""
    graph = program.graph
    placeholders = {node.name: node for node in graph.find_nodes(op="placeholder")}
    changed = {name for _, name in mutation_targets(program)}
    last = list(placeholders.values())[-1]
    for name, spec in input_specs_by_name(program).items():
        node = placeholders[name]
        if spec.kind not in CONSTANT_KINDS or name in changed or not _is_complex(node):
            continue
        held: Any = program.constants
        if spec.target in program.state_dict:
            held = program.state_dict
        pairs = torch.view_as_real(constant_tensor(program, spec).detach().resolve_conj())
        is_parameter = spec.kind is InputKind.PARAMETER
        held[spec.target] = torch.nn.Parameter(pairs, False) if is_parameter else pairs
        value = node.meta["val"]
        with graph.inserting_after(last):
            view = graph.call_function(aten.view_as_complex.default, (node,))
        node.replace_all_uses_with(view, lambda user, view=view: user is not view)
        view.meta["val"] = value
        node.meta["val"] = torch.view_as_real(value)
    return program


def _cancel_views(program: ExportedProgram) -> None:
    """Replaces view_as_real(view_as_complex(x)) by x, and removes dead code."""
    graph = program.graph
    for node in graph.nodes:
        made = node.args[0] if node.target is aten.view_as_real.default else None
        if isinstance(made, Node) and made.target is aten.view_as_complex.default:
            node.replace_all_uses_with(made.args[0])
    for node in reversed(graph.nodes):
        if node.op != "call_function" or node.users:
            continue
        checks = node.target is aten._assert_tensor_metadata.default
        if any(map(_is_complex, node.all_input_nodes)) if checks else not node.is_impure():
            graph.erase_node(node)


# Rules: functions of an operator's arguments, with a complex tensor among arguments or results, in
# terms of real tensors and the two views.


def _pairs(value: Tensor) -> Tensor:
    """Real and imaginary parts in the last dimension."""
    if value.is_complex():
        return torch.view_as_real(value)
    return torch.stack([value, torch.zeros_like(value)], -1)


def _parts(value: Any) -> tuple[Any, Any]:
    if isinstance(value, Tensor):
        pairs = _pairs(value)
        return pairs.select(-1, 0), pairs.select(-1, 1)
    return complex(value).real, complex(value).imag


def _complex(real: Tensor, imag: Tensor) -> Tensor:
    return torch.view_as_complex(torch.stack(torch.broadcast_tensors(real, imag), -1))


def _is_real(value: Any) -> bool:
    return not _is_complex(value) and not isinstance(value, complex)


def _mul(a: Any, b: Any) -> Tensor:
    if _is_real(a):
        a, b = b, a
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    if _is_real(b):
        factor = b if isinstance(b, Tensor) else br
        return _complex(ar * factor, ai * factor)
    return _complex(ar * br - ai * bi, ar * bi + ai * br)


def _div(a: Any, b: Any) -> Tensor:
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    if _is_real(b):
        divisor = b if isinstance(b, Tensor) else br
        return _complex(ar / divisor, ai / divisor)
    size = br * br + bi * bi
    return _complex((ar * br + ai * bi) / size, (ai * br - ar * bi) / size)


def _add(a: Any, b: Any, *, alpha: Any = 1) -> Tensor:
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    return _complex(ar + alpha * br, ai + alpha * bi)


def _sub(a: Any, b: Any, *, alpha: Any = 1) -> Tensor:
    return _add(a, b, alpha=-alpha)


def _neg(a: Tensor) -> Tensor:
    return torch.view_as_complex(-_pairs(a))


def _conj(a: Tensor) -> Tensor:
    real, imag = _parts(a)
    return _complex(real, -imag)


def _abs(a: Tensor) -> Tensor:
    return torch.hypot(*_parts(a))


def _angle(a: Tensor) -> Tensor:
    real, imag = _parts(a)
    return torch.atan2(imag, real)


def _polar(size: Tensor, angle: Tensor) -> Tensor:
    return _complex(size * angle.cos(), size * angle.sin())


def _exp(a: Tensor) -> Tensor:
    real, imag = _parts(a)
    return _polar(real.exp(), imag)


def _sum(a: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    dims = _dims(a, dim if dim else range(a.dim()))
    return torch.view_as_complex(_pairs(a).sum(dims, keepdim))


def _mean(a: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    dims = _dims(a, dim if dim else range(a.dim()))
    return torch.view_as_complex(_pairs(a).mean(dims, keepdim))


def _matmul(a: Tensor, b: Tensor) -> Tensor:
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    return _complex(ar @ br - ai @ bi, ar @ bi + ai @ br)


def _where(condition: Tensor, a: Any, b: Any) -> Tensor:
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    return _complex(torch.where(condition, ar, br), torch.where(condition, ai, bi))


def _to_copy(a: Tensor, *, dtype: Any = None, **options: Any) -> Tensor:
    dtype = dtype or a.dtype
    if not dtype.is_complex:
        return aten._to_copy.default(_parts(a)[0], dtype=dtype, **options)
    return torch.view_as_complex(aten._to_copy.default(_pairs(a), dtype=dtype.to_real(), **options))


def _dims(a: Tensor, dims: Any) -> list[int]:
    """Non-negative dimensions of `a`, also valid for its real view."""
    return [dim % a.dim() if a.dim() else 0 for dim in dims]


def _on_pairs(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A rule that applies `function` to the real view; it also gets the complex tensor's rank."""

    def rule(a: Any, *args: Any, **kwargs: Any) -> Tensor:
        return torch.view_as_complex(function(_pairs(a), a.dim(), *args, **kwargs))

    return rule


def _at(op: Any) -> Callable[..., Tensor]:
    """A rule for an operator whose second argument is a dimension."""
    return _on_pairs(lambda pairs, rank, dim=0, *rest: op(pairs, dim % max(rank, 1), *rest))


def _joined(op: Any, extra: int) -> Callable[..., Tensor]:
    def rule(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
        return torch.view_as_complex(op([*map(_pairs, tensors)], dim % (tensors[0].dim() + extra)))

    return rule


_BY_OPERATOR: Table = {
    aten.mul.Tensor: _mul,
    aten.mul.Scalar: _mul,
    aten.div.Tensor: _div,
    aten.div.Scalar: _div,
    aten.add.Tensor: _add,
    aten.add.Scalar: _add,
    aten.sub.Tensor: _sub,
    aten.sub.Scalar: _sub,
    aten.neg.default: _neg,
    aten.conj.default: _conj,
    aten._conj.default: _conj,
    aten._conj_physical.default: _conj,
    aten.resolve_conj.default: lambda a: torch.view_as_complex(_pairs(a)),
    aten.abs.default: _abs,
    aten.angle.default: _angle,
    aten.polar.default: _polar,
    aten.exp.default: _exp,
    aten.real.default: lambda a: _parts(a)[0],
    aten.imag.default: lambda a: _parts(a)[1],
    aten.sum.default: _sum,
    aten.sum.dim_IntList: _sum,
    aten.mean.default: _mean,
    aten.mean.dim: _mean,
    aten.mm.default: _matmul,
    aten.bmm.default: _matmul,
    aten.where.self: _where,
    aten._to_copy.default: _to_copy,
    aten.view.default: _on_pairs(lambda a, rank, sizes: a.view([*sizes, 2])),
    aten._unsafe_view.default: _on_pairs(lambda a, rank, sizes: a.reshape([*sizes, 2])),
    aten.reshape.default: _on_pairs(lambda a, rank, sizes: a.reshape([*sizes, 2])),
    aten.expand.default: _on_pairs(lambda a, rank, sizes: a.expand([*sizes, 2])),
    aten.permute.default: _on_pairs(
        lambda a, rank, dims: a.permute([*(dim % rank for dim in dims), rank])
    ),
    aten.unsqueeze.default: _on_pairs(lambda a, rank, dim: a.unsqueeze(dim % (rank + 1))),
    aten.squeeze.dims: _on_pairs(lambda a, rank, dims: a.squeeze([dim % rank for dim in dims])),
    aten.slice.Tensor: _at(aten.slice.Tensor),
    aten.select.int: _at(aten.select.int),
    aten.index_select.default: _at(aten.index_select.default),
    aten.index.Tensor: _on_pairs(lambda a, rank, indices: a[_filled(indices)]),
    aten.flip.default: _on_pairs(lambda a, rank, dims: a.flip([dim % rank for dim in dims])),
    aten.clone.default: _on_pairs(lambda a, rank, **options: a.clone()),
    aten.alias.default: _on_pairs(lambda a, rank: a),
    aten.constant_pad_nd.default: _on_pairs(
        lambda a, rank, pad, value=0: aten.constant_pad_nd.default(a, [0, 0, *pad], value)
    ),
    aten.cat.default: _joined(torch.cat, 0),
    aten.stack.default: _joined(torch.stack, 1),
}


def _filled(indices: Sequence[Tensor | None]) -> tuple[Any, ...]:
    return tuple(slice(None) if index is None else index for index in indices)


def _guarded(op: OpOverload, rule: Callable[..., Any]) -> Callable[..., Any]:
    """Applies the rule unless all tensors are real or it does not support the call."""

    def run(*args: Any, **kwargs: Any) -> Any:
        leaves = pytree.tree_leaves((args, kwargs))
        is_complex = any(
            _is_complex(x) or isinstance(x, torch.dtype) and x.is_complex for x in leaves
        )
        if not is_complex and op is not aten.polar.default:
            return NotImplemented
        return rule(*args, **kwargs)

    return run


_RULES: Table = {op: _guarded(op, rule) for op, rule in _BY_OPERATOR.items()}
