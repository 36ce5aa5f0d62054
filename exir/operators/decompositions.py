"""Decompositions that run before partitioning."""

import contextlib
import functools
import operator
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._decomp import get_decompositions
from torch._decomp.decompositions import lstm_impl
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import cast_symbool_to_symint_guardless
from torch.utils import _pytree as pytree
from torch.utils._sympy.symbol import SymT, symbol_is_type

from pteron.exir.graph.exported_program import (
    check_constants,
    constant_tensor,
    copy_graph,
    copy_modules,
    copy_program,
    with_graph,
)
from pteron.exir.operators.antialiased_resizing import antialiased_resizing
from pteron.exir.operators.library_operators import any_number_of_kept_boxes, library_decompositions
from pteron.exir.operators.linear_algebra import linear_algebra
from pteron.exir.operators.overlapping_operands import copy_overlapping_operands
from pteron.exir.operators.quantized_matmul import quantized_matmul
from pteron.exir.operators.random_values import random_values
from pteron.exir.operators.recurrent_cells import recurrent_cells
from pteron.exir.operators.recurrent_layers import RECURRENT_LAYERS, whole_recurrent_layers
from pteron.exir.operators.sampling import sampling

Table = dict[OpOverload, Callable[..., Any]]


def decomposition_table() -> Table:
    """Torch's table down to core ATen operators, and attention down to matmuls."""
    table: Any = torch.export.default_decompositions()
    table.update(
        get_decompositions([torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default])
    )
    table[torch.ops.aten.cat.default] = _cat
    table[torch.ops.aten.complex.default] = _complex
    table[torch.ops.aten.histc.default] = _histogram
    table[torch.ops.aten.lstm.input] = _lstm
    table[torch.ops.aten.select_scatter.default] = _select_scatter
    for op in (torch.ops.aten.index_add.default, torch.ops.aten.index_copy.default):
        table[op] = _without_negative_indices(table[op])
    for op in (torch.ops.aten.index_fill.int_Scalar, torch.ops.aten.index_fill.int_Tensor):
        table[op] = _with_negative_indices(table[op])  # through `index_copy`
    table[torch.ops.aten.index_select.default] = _without_negative_indices(torch._refs.index_select)
    table[torch.ops.aten._adaptive_avg_pool2d.default] = _adaptive_avg_pool
    table[torch.ops.aten.adaptive_max_pool2d.default] = _adaptive_max_pool
    table[torch.ops.aten._is_all_true.default] = torch.all
    table[torch.ops.aten._is_any_true.default] = torch.any
    table.update(linear_algebra())
    table.update(quantized_matmul())
    table.update(library_decompositions())
    table.update(antialiased_resizing())
    table.update(sampling())
    table.update(random_values())
    table.update(recurrent_cells())
    return table  # torch's own dict type


def _cat(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
    """Of 8-bit integers, through int16: Inductor leaves those to a library call on the CPU."""
    if any(tensor.dtype not in (torch.int8, torch.uint8) for tensor in tensors):
        return NotImplemented
    dtype = functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    return torch.cat([tensor.to(torch.int16) for tensor in tensors], dim).to(dtype)


def _adaptive_avg_pool(x: torch.Tensor, output_size: Sequence[int]) -> torch.Tensor:
    """Of a dynamic size, as that of a volume: Inductor makes the sizes of images constant."""
    if all(type(size) is int for size in x.shape[-2:]):
        return NotImplemented
    volume = torch.ops.aten._adaptive_avg_pool3d(x.unsqueeze(-3), [1, *output_size])
    return volume.squeeze(-3)


def _adaptive_max_pool(
    x: torch.Tensor, output_size: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same, and of windows of several sizes, where Inductor's index of a NaN is another one.
    Indices are those of an image, since the volume has one."""
    sizes = list(zip(x.shape[-2:], output_size, strict=True))
    if all(type(size) is int and (n == 0 or size % n == 0) for size, n in sizes):
        return NotImplemented
    values, indices = torch.ops.aten.adaptive_max_pool3d(x.unsqueeze(-3), [1, *output_size])
    return values.squeeze(-3), indices.squeeze(-3)


def _complex(real: torch.Tensor, imag: torch.Tensor) -> torch.Tensor:
    """view_as_complex of a stack, without a complex operator."""
    parts = torch.broadcast_tensors(real, imag)
    return torch.view_as_complex(torch.stack(parts, -1))


def _lstm(
    numbers: torch.Tensor, state: Sequence[torch.Tensor], *options: Any
) -> tuple[torch.Tensor, ...]:
    """torch's, but 2.11 adds a dimension to the last state of batches."""
    out, *last = lstm_impl(numbers, state, *options)
    return out, *(
        new if new.dim() == old.dim() else new.reshape(old.shape)
        for new, old in zip(last, state, strict=True)
    )


def _histogram(
    numbers: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0
) -> torch.Tensor:
    """For integers, which torch supports on GPUs only: through float64."""
    if numbers.is_floating_point():
        return NotImplemented
    return torch.histc(numbers.double(), bins, min, max).to(numbers.dtype)


def _without_negative_indices(
    decomposition: Callable[..., torch.Tensor],
) -> Callable[..., torch.Tensor]:
    """For an operator that rejects negative indices, whose decomposition accepts them."""
    # Replaces them by `size`, which is rejected too.
    return _with_indices(lambda index, size: torch.where(index < 0, size, index), decomposition)


def _with_negative_indices(
    decomposition: Callable[..., torch.Tensor],
) -> Callable[..., torch.Tensor]:
    """For an operator that accepts negative indices, whose decomposition rejects them."""
    return _with_indices(lambda index, size: index + size * (index < 0), decomposition)


def _with_indices(
    change: Callable[[torch.Tensor, int], torch.Tensor],
    decomposition: Callable[..., torch.Tensor],
) -> Callable[..., torch.Tensor]:
    def decompose(
        numbers: torch.Tensor, dim: int, index: torch.Tensor, *rest: Any, **options: Any
    ) -> torch.Tensor:
        index = change(index, numbers.size(dim) if numbers.dim() else 1)
        return decomposition(numbers, dim, index, *rest, **options)

    return decompose


def _select_scatter(
    numbers: torch.Tensor, row: torch.Tensor, dim: int, index: int | torch.SymInt
) -> torch.Tensor:
    """torch does not check a data-dependent index, or cannot trace it."""
    size = numbers.size(dim)
    if isinstance(index, int):
        return torch._refs.select_scatter(numbers, row, dim, index)
    torch._check(index >= -size)
    torch._check(index < size)
    rows = torch.arange(size, device=numbers.device).add(torch.sym_ite(index < 0, -size, 0))
    shape = [1] * numbers.dim()
    shape[dim] = size
    is_row: Any = rows == index
    chosen = torch.where(is_row.view(shape), row.unsqueeze(dim), numbers)
    return chosen.to(numbers.dtype)


def _operators(program: ExportedProgram) -> set[OpOverload]:
    """All operators that a program calls, also in branches."""
    return {
        node.target
        for module in program.graph_module.modules()
        if isinstance(module, GraphModule)
        for node in module.graph.nodes
        if isinstance(node.target, OpOverload)
    }


def join_aliases(program: ExportedProgram) -> ExportedProgram:
    """The program with one input for a buffer that it has under several names and writes to.

    torch.export finds a tensor again that a module keeps in an object of its own (a cache), as a
    constant, and cannot functionalize a program that writes to it.
    """
    if not any(op._schema.is_mutable for op in _operators(program)):
        return program
    first: dict[object, Node] = {}
    joined: list[tuple[Node, Node]] = []
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    pairs = list(zip(placeholders, program.graph_signature.input_specs, strict=True))
    for kind in (InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
        for node, spec in pairs:
            if spec.kind is not kind:
                continue
            value = constant_tensor(program, spec)
            storage = value.untyped_storage()._cdata
            key = storage, value.storage_offset(), value.dtype, value.shape, value.stride()
            if first.setdefault(key, node) is not node:
                joined.append((node, first[key]))
    if not joined:
        return program
    graph, copies = copy_graph(program.graph)
    for node, kept in joined:
        copy = copies.pop(node)
        copy.replace_all_uses_with(copies[kept])
        graph.erase_node(copy)
    return with_graph(program, copy_modules(program.graph_module), graph, copies)


def functionalize(program: ExportedProgram) -> ExportedProgram:
    """The functionalized program, without decompositions but of norms that write to buffers.

    Raises:
      ValueError: a constant has no values.
    """
    check_constants(program)
    norms = {node.target for node in program.graph.nodes if updates_statistics(node)}
    if norms or any(op._schema.is_mutable for op in _operators(program)):
        every: Any = torch.export.default_decompositions() if norms else {}
        return run_decompositions(program, {norm: every[norm] for norm in norms if norm in every})
    return program


def updates_statistics(node: Node) -> bool:
    """Whether a node is a norm that writes to buffers, which its schema does not say."""
    norms = (torch.ops.aten.batch_norm.default, torch.ops.aten.instance_norm.default)
    return node.target in norms and node.args[3] is not None and node.args[5] is True


def decompose(program: ExportedProgram, keep: Iterable[OpOverload]) -> ExportedProgram:
    """The program in functional form, in terms of core ATen and the operators in `keep`.

    `program` is functional. Retracing is most of the lowering time outside backends, so it is
    skipped if there is nothing to decompose.
    """
    table = decomposition_table()
    for op in keep:
        table.pop(op, None)
    if program.dialect == "ATEN" and not _operators(program).intersection(table):
        return program
    return run_decompositions(program, table)


def run_decompositions(program: ExportedProgram, table: Table) -> ExportedProgram:
    """`program.run_decompositions(table)`, also for assertions that torch cannot retrace, and for
    operands that share memory."""
    program = copy_overlapping_operands(program)
    if _bool_comparisons(program):
        program = copy_program(program)
        _simplify_bool_comparisons(program)
    with warnings.catch_warnings():
        # torch copies its own deprecated tree specs: a warning that users cannot act on.
        warnings.filterwarnings("ignore", ".*LeafSpec.* is deprecated", FutureWarning)
        whole = whole_recurrent_layers(RECURRENT_LAYERS.keys() - table.keys())
        with whole, any_number_of_kept_boxes():
            result = program.run_decompositions(table)
    _simplify_bool_comparisons(result)
    _narrow_data_dependent_sizes(result)
    return result


def _narrow_data_dependent_sizes(program: ExportedProgram) -> None:
    """Applies bounds that decompositions add, which torch knows but does not note.

    That of nms is the number of boxes: its decomposition calls nonzero.
    """
    mode = detect_fake_mode([node.meta.get("val") for node in program.graph.nodes])
    if mode is None or mode.shape_env is None:
        return
    for symbol, known in mode.shape_env.var_to_range.items():
        before = program.range_constraints.get(symbol)
        if before is not None and symbol_is_type(symbol, SymT.UNBACKED_INT):
            program.range_constraints[symbol] = before & known


def _bool_comparisons(program: ExportedProgram) -> list[Node]:
    """`int(condition) == 1`, where `condition` is a data-dependent bool.

    torch creates assertions of this form, and torch 2.11 cannot retrace them ("not tracked with
    proxy").
    """
    return [
        node
        for node in program.graph.nodes
        if node.target is operator.eq
        and node.args[1] == 1
        and isinstance(node.args[0], Node)
        and node.args[0].target is cast_symbool_to_symint_guardless
    ]


def _simplify_bool_comparisons(program: ExportedProgram) -> None:
    """`condition` for `int(condition) == 1`."""
    for node in _bool_comparisons(program):
        number: Any = node.args[0]
        node.replace_all_uses_with(number.args[0])
        program.graph.erase_node(node)
        if not number.users:
            program.graph.erase_node(number)
    program.graph_module.recompile()


def decompose_nodes(
    program: ExportedProgram, choose: Callable[[Node], bool], table: Table
) -> ExportedProgram:
    """The program with the chosen calls decomposed, if `table` has them."""
    names = {
        node.name
        for node in program.graph.nodes
        if node.op == "call_function" and node.target in table and choose(node)
    }
    if not names:
        return program
    program = copy_program(program)
    for node in list(program.graph.nodes):
        if node.op == "call_function" and node.name in names:
            replace_call(node, node.target, table)
    program.graph_module.recompile()
    return program


def replace_call(node: Node, function: Callable[..., Any], table: Table | None = None) -> bool:
    """Replaces a call by the traced operators of `function` on its arguments.

    Returns False, and keeps the call, if that would create constants.
    """
    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    inputs = list(dict.fromkeys(leaf for leaf in leaves if isinstance(leaf, Node)))

    def run(*values: Any) -> Any:
        by_node = dict(zip(inputs, values, strict=True))
        given = [by_node[leaf] if isinstance(leaf, Node) else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(given, spec)
        return function(*args, **kwargs)

    return replace_by_trace(node, run, inputs, table)


def replace_by_trace(
    node: Node, function: Callable[..., Any], inputs: Sequence[Node], table: Table | None = None
) -> bool:
    """Replaces a call by the traced operators of `function` on the values of `inputs`.

    Returns False, and keeps the call, if that would create constants.
    """
    results = insert_trace(node, function, inputs, table)
    if results is None:
        return False
    if isinstance(results, Node):
        replace_node(node, results)
    else:
        for user in list(node.users):
            assert user.target is operator.getitem
            replace_node(user, results[user.args[1]])  # type: ignore[index]
        node.graph.erase_node(node)
    return True


def replace_node(node: Node, by: Node) -> None:
    """Replaces a node by `by`; an output keeps its name, which signatures refer to."""
    is_output = any(user.op == "output" for user in node.users)
    node.replace_all_uses_with(by)
    node.graph.erase_node(node)
    if is_output and by.op == "call_function":
        by.name = node.name


def insert_trace(
    before: Node, function: Callable[..., Any], inputs: Sequence[Node], table: Table | None = None
) -> Node | list[Node] | None:
    """Calls `function` on the values of `inputs`; its operators go before a node of a graph.

    Returns its result, or None without changing the graph if it creates constants, which cannot be
    added to a program at this stage.
    """
    values = [item.meta["val"] for item in inputs]
    # Functions in C++ make dynamic sizes constant: padding, and matmul of torch 2.11 and 2.12.
    with detect_fake_mode(values) or contextlib.nullcontext(), enable_python_dispatcher():
        traced = make_fx(function, decomposition_table=table)(*values)
    graph: Graph = before.graph
    attributes = traced.graph.find_nodes(op="get_attr")
    modules = {item: getattr(traced, item.target) for item in attributes}
    if not all(isinstance(module, GraphModule) for module in modules.values()):
        return None
    mapping = dict(zip(traced.graph.find_nodes(op="placeholder"), inputs, strict=True))
    with graph.inserting_before(before):
        for inner in traced.graph.nodes:
            if inner.op == "get_attr":
                name = f"{before.name}_{inner.target}"
                setattr(graph.owning_module, name, modules[inner])
                mapping[inner] = graph.get_attr(name)
            elif inner.op == "call_function":
                mapping[inner] = graph.node_copy(inner, mapping.__getitem__)
                for key in ("stack_trace", "nn_module_stack"):
                    if key in before.meta:
                        mapping[inner].meta[key] = before.meta[key]
    results: Any = traced.graph.output_node().args[0]
    return mapping[results] if isinstance(results, Node) else [mapping[item] for item in results]
