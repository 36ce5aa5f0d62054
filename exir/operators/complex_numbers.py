"""Decomposes complex tensors into real ones.

before:  z = view_as_complex(x); w = z * rotation; return view_as_real(w)
after:   re = x[..., 0] * rotation[..., 0] - ...; return stack([re, im], -1)

Backends compile real dtypes and call a fallback kernel for each complex operator. Inputs, outputs
and state that are complex stay so, and operators without a rule here, such as FFTs, between
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

from pteron.exir.graph.exported_program import (
    CONSTANT_KINDS,
    constant_tensor,
    copy_program,
    flat_outputs,
    input_specs_by_name,
    mutation_targets,
)
from pteron.exir.operators.decompositions import Table, decompose_nodes, decomposition_table

aten = torch.ops.aten
Tensor = torch.Tensor


def decompose_complex_tensors(program: ExportedProgram) -> ExportedProgram:
    """The program with real operators and constants, where rules exist."""
    if not any(_is_complex(node) for node in program.graph.nodes):
        return program
    program = _with_real_factories(_with_real_constants(copy_program(program)))
    program = decompose_nodes(program, _is_of_complex, {**decomposition_table(), **_RULES})
    _cancel_views(program)
    program.graph_module.recompile()
    return copy_program(program)


def _is_complex(value: Any) -> bool:
    if isinstance(value, Node):
        return any(_is_complex(item) for item in pytree.tree_leaves(value.meta.get("val")))
    return isinstance(value, Tensor) and value.is_complex()


def _is_of_complex(node: Node) -> bool:
    return node.target in _RULES and any(map(_is_complex, (node, *node.all_input_nodes)))


def _with_real_constants(program: ExportedProgram) -> ExportedProgram:
    """Complex constants and state become real ones with a last dimension of 2."""
    graph = program.graph
    placeholders = {node.name: node for node in graph.find_nodes(op="placeholder")}
    changed = {name: position for position, name in mutation_targets(program)}
    output = graph.output_node()
    last = list(placeholders.values())[-1]
    for name, spec in input_specs_by_name(program).items():
        node = placeholders[name]
        if spec.kind not in CONSTANT_KINDS or not _is_complex(node):
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
        if name in changed:
            results: list[Any] = flat_outputs(graph)
            new = results[changed[name]]
            with graph.inserting_before(output):
                pairs_of_new = graph.call_function(aten.view_as_real.default, (new,))
            pairs_of_new.meta["val"] = torch.view_as_real(new.meta["val"])
            results[changed[name]] = pairs_of_new
            output.args = (tuple(results),)
    return program


_FACTORIES = (aten.full.default, aten.scalar_tensor.default, aten.empty.memory_format)


def _with_real_factories(program: ExportedProgram) -> ExportedProgram:
    """Factories of complex tensors become those of real ones."""
    graph = program.graph
    for node in [n for n in graph.nodes if n.target in _FACTORIES and _is_complex(n)]:
        value = node.meta["val"]
        sizes: Any = [] if node.target is aten.scalar_tensor.default else node.args[0]
        filled = {aten.full.default: 1, aten.scalar_tensor.default: 0}.get(node.target)
        number = complex(node.args[filled]) if filled is not None else 0j
        options = {"dtype": value.dtype.to_real(), "device": value.device}
        with graph.inserting_before(node), value.fake_mode:
            parts = [
                graph.call_function(aten.full.default, (sizes, part), options)
                for part in (number.real, number.imag)
            ]
            stack = graph.call_function(aten.stack.default, (parts, -1))
            made = graph.call_function(aten.view_as_complex.default, (stack,))
            for part in parts:
                part.meta["val"] = torch.empty_like(value, dtype=options["dtype"])
            stack.meta["val"] = torch.stack([part.meta["val"] for part in parts], -1)
            made.meta["val"] = value
        node.replace_all_uses_with(made)
        graph.erase_node(node)
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


def _reduced(op: Any) -> Callable[..., Tensor]:
    def rule(a: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        dims = [d % a.dim() if a.dim() else 0 for d in dim or range(a.dim())]
        return torch.view_as_complex(op(_pairs(a), dims, keepdim))

    return rule


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


def _reciprocal(a: Tensor) -> Tensor:
    real, imag = _parts(a)
    size = real * real + imag * imag
    return _complex(real / size, -imag / size)


def _pow(a: Tensor, exponent: Any) -> Any:
    if exponent == 2:
        return _mul(a, a)
    return _reciprocal(a) if exponent == -1 else NotImplemented


def _log(a: Tensor) -> Tensor:
    return _complex(_abs(a).log(), _angle(a))


def _sqrt(a: Tensor) -> Tensor:
    """As std::sqrt: the sign of the imaginary part is that of the argument's."""
    real, imag = _parts(a)
    size = torch.hypot(real, imag)
    large = ((size + real.abs()) / 2).sqrt()
    small = torch.where(large == 0, large, imag.abs() / (2 * large))
    is_right = real >= 0
    return _complex(
        torch.where(is_right, large, small), torch.where(is_right, small, large).copysign(imag)
    )


def _sgn(a: Tensor) -> Tensor:
    size = _abs(a)
    return _mul(a, torch.where(size == 0, 0, 1 / size))


def _full_like(a: Tensor, value: Any, *, dtype: Any = None, **options: Any) -> Any:
    dtype = dtype or a.dtype
    if not dtype.is_complex:
        return NotImplemented
    sized = _parts(a)[0]
    return _complex(*(torch.full_like(sized, x, dtype=dtype.to_real()) for x in _parts(value)))


def _copy(a: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    return _to_copy(source, dtype=a.dtype).expand(a.shape)


def _index_put(a: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
    if any(index is not None and index.dtype == torch.bool for index in indices):
        return NotImplemented
    pairs = aten.index_put.default(_pairs(a), indices, _pairs(values), accumulate)
    return torch.view_as_complex(pairs)


def _equal(a: Any, b: Any) -> Tensor:
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    return (ar == br) & (ai == bi)


def _unequal(a: Any, b: Any) -> Tensor:
    return ~_equal(a, b)


def _of_parts(op: Any, join: Any) -> Callable[[Tensor], Tensor]:
    """A test that holds for a complex number if it does for all, or any, of its parts."""
    return lambda a: join(*(op(part) for part in _parts(a)))


def _masked_fill(a: Tensor, mask: Tensor, value: Any) -> Tensor:
    (ar, ai), (br, bi) = _parts(a), _parts(value)
    return _complex(ar.masked_fill(mask, br), ai.masked_fill(mask, bi))


def _several(op: Any) -> Callable[..., list[Tensor]]:
    """A rule for an operator with several results, whose last argument is a dimension."""

    def rule(a: Tensor, *args: Any) -> list[Tensor]:
        given = args if args and len(args) == len(op._schema.arguments) - 1 else (*args, 0)
        dim = given[-1] % a.dim()
        return [torch.view_as_complex(x) for x in op(_pairs(a), *given[:-1], dim)]

    return rule


def _scattered(op: Any) -> Callable[..., Tensor]:
    """A rule for an operator of (self, src, dim, ...)."""

    def rule(a: Tensor, source: Any, dim: int = 0, *rest: Any) -> Tensor:
        return torch.view_as_complex(op(_pairs(a), _pairs(source), dim % a.dim(), *rest))

    return rule


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
    **dict.fromkeys((aten.mul.Tensor, aten.mul.Scalar), _mul),
    **dict.fromkeys((aten.div.Tensor, aten.div.Scalar), _div),
    **dict.fromkeys((aten.add.Tensor, aten.add.Scalar), _add),
    **dict.fromkeys((aten.sub.Tensor, aten.sub.Scalar), _sub),
    aten.neg.default: _neg,
    **dict.fromkeys((aten.conj.default, aten._conj.default, aten._conj_physical.default), _conj),
    aten.resolve_conj.default: lambda a: torch.view_as_complex(_pairs(a)),
    aten.abs.default: _abs,
    aten.angle.default: _angle,
    aten.polar.default: _polar,
    aten.exp.default: _exp,
    aten.real.default: lambda a: _parts(a)[0],
    aten.imag.default: lambda a: _parts(a)[1],
    **dict.fromkeys((aten.sum.default, aten.sum.dim_IntList), _reduced(torch.sum)),
    **dict.fromkeys((aten.mean.default, aten.mean.dim), _reduced(torch.mean)),
    **dict.fromkeys((aten.mm.default, aten.bmm.default), _matmul),
    aten.where.self: _where,
    aten._to_copy.default: _to_copy,
    # Also of a view: what the rules compute may have other strides.
    **dict.fromkeys(
        (aten.view.default, aten._unsafe_view.default, aten.reshape.default),
        _on_pairs(lambda a, rank, sizes: a.reshape([*sizes, 2])),
    ),
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
    aten.reciprocal.default: _reciprocal,
    aten.pow.Tensor_Scalar: _pow,
    aten.log.default: _log,
    aten.sqrt.default: _sqrt,
    aten.sgn.default: _sgn,
    aten.full_like.default: _full_like,
    aten.copy.default: _copy,
    aten.index_put.default: _index_put,
    **dict.fromkeys((aten.eq.Tensor, aten.eq.Scalar), _equal),
    **dict.fromkeys((aten.ne.Tensor, aten.ne.Scalar), _unequal),
    aten.isnan.default: _of_parts(torch.isnan, torch.logical_or),
    aten.isinf.default: _of_parts(torch.isinf, torch.logical_or),
    aten.masked_fill.Scalar: _masked_fill,
    aten.cumsum.default: _at(aten.cumsum.default),
    aten.repeat.default: _on_pairs(lambda a, rank, repeats: a.repeat([*repeats, 1])),
    aten.split_with_sizes.default: _several(aten.split_with_sizes.default),
    aten.unbind.int: _several(aten.unbind.int),
    aten.slice_scatter.default: _scattered(aten.slice_scatter.default),
    aten.select_scatter.default: _scattered(aten.select_scatter.default),
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
            _is_complex(x)
            or isinstance(x, complex)
            or (isinstance(x, torch.dtype) and x.is_complex)
            for x in leaves
        )
        if not is_complex and op is not aten.polar.default:
            return NotImplemented
        return rule(*args, **kwargs)

    return run


_RULES: Table = {op: _guarded(op, rule) for op, rule in _BY_OPERATOR.items()}
