"""Indices, and numbers that integers are divided by, are checked on a GPU, too."""

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch.fx import GraphModule, Interpreter, Node

from pteron.backends.cuda import CudaOptions, CudaPartitioner
from pteron.backends.cuda.division_checks import check_divisions
from pteron.backends.cuda.tests.programs import load, lower, save
from pteron.exir import ExecutorchBackendConfig, to_edge
from pteron.exir.graph.exported_program import copy_program
from pteron.exir.graph.lowered_backend_module import lowered_modules
from pteron.runtime import InvalidArgumentError

T = torch.Tensor

SM_90 = CudaOptions(architectures=("sm_90",), save_data_externally=False)
NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
LEAST = torch.iinfo(torch.int64).min
CHECK = torch.ops.aten._assert_async.msg


class Function(torch.nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("rows", torch.zeros(16, 4))

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs, *([self.rows] if self.function is _in_state else []))


def export(
    function: Callable[..., Any], *inputs: Any, **options: Any
) -> torch.export.ExportedProgram:
    return torch.export.export(Function(function), inputs, **options)


def _in_state(i: T, rows: T) -> T:
    rows[i] = 2.0
    return rows + 1


_X, _I = torch.randn(16, 4), torch.tensor([1, 2, 3])
_TAKING = {
    "index": (lambda x, i: x[i] * 2, _X, _I),
    "columns": (lambda x, i: x[:, i] * 2, _X, _I),
    "index_select": (lambda x, i: x.index_select(0, i) * 2, _X, _I),
    "gather": (lambda x, i: x.gather(0, i) * 2, _X, torch.ones(3, 4, dtype=torch.int64)),
    "take": (lambda x, i: x.take(i), _X, _I),
    "embedding": (lambda x, i: torch.nn.functional.embedding(i, x) * 2, _X, _I),
    "index_put": (lambda x, i: x.index_put((i,), x[:3]), _X, _I),
    "added": (lambda x, i: x.index_put((i,), x[:3], accumulate=True), _X, _I),
    "index_add": (lambda x, i: x.index_add(0, i, x[:3]), _X, _I),
    "index_copy": (lambda x, i: x.index_copy(0, i, x[:3]), _X, _I),
    "scatter": (lambda x, i: x.scatter(0, i, 1.5), _X, torch.ones(3, 4, dtype=torch.int64)),
    "scatter_add": (lambda x, i: x.scatter_add(0, i, x), _X, torch.ones(3, 4, dtype=torch.int64)),
    "state": (_in_state, _I),
    "narrow": (lambda x, i: x[i] * 2, _X, _I.to(torch.int32)),
}


@pytest.mark.parametrize("name", _TAKING)
def test_indices_are_asserted_in_machine_code(name: str) -> None:
    manager = lower(export(*_TAKING[name]), SM_90)
    program = manager.to_executorch(ExecutorchBackendConfig(verify=False))
    assert b"__assertfail" in program.buffer and b"index out of bounds" in program.buffer


def test_without_indices_there_is_no_assertion() -> None:
    manager = lower(export(lambda x: x * 2, _X), SM_90)
    program = manager.to_executorch(ExecutorchBackendConfig(verify=False))
    assert b"__assertfail" not in program.buffer


@pytest.mark.parametrize("divide", [lambda x, i: x * (64 // i.item()), lambda x, i: x % i.item()])
def test_numbers_that_divide_are_checked_by_the_host(divide: Callable[..., Any]) -> None:
    manager = lower(export(divide, torch.arange(8), torch.tensor(3)), SM_90)
    program = manager.to_executorch(ExecutorchBackendConfig(verify=False))
    (kernels,) = (method.kernels for method in program.explain().methods)
    by_host = b"a number that is not 0" in program.buffer
    assert by_host or "aten::_assert_async.msg" in kernels


_DTYPES = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
_DIVISIONS: dict[str, Callable[..., Any]] = {
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "floor": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "fmod": torch.fmod,
}


def _arguments(dtype: torch.dtype, name: str) -> list[tuple[T, T, bool]]:
    """Dividends, divisors, and whether all quotients are there."""
    least = torch.iinfo(dtype).min
    a = torch.tensor([7, 8, 9], dtype=dtype)
    b = torch.tensor([1, 2, 3], dtype=dtype)
    if least == 0:
        return [(a, b, True), (a, b - 1, False)]
    is_quotient = name in ("trunc", "floor")
    lowest = torch.tensor([least, 8, 9], dtype=dtype)
    return [
        (a, b, True),
        (a, b - 2, False),
        (a, -b, True),
        (lowest, b, True),
        (lowest, -b, not is_quotient),
    ]


_PACKETS = (torch.ops.aten.div, torch.ops.aten.remainder, torch.ops.aten.fmod)


def _divide_as_a_gpu_does(module: GraphModule) -> None:
    """A quotient by 0 is some value, not an error."""
    for node in list(module.graph.nodes):
        if getattr(node.target, "overloadpacket", None) not in _PACKETS:
            continue
        a, b = node.args
        if isinstance(b, Node):
            with module.graph.inserting_before(node):
                is_zero = module.graph.call_function(torch.ops.aten.eq.Scalar, (b, 0))
                where = torch.ops.aten.where.ScalarSelf
                node.args = (a, module.graph.call_function(where, (is_zero, 1, b)))
    module.recompile()


def _condition(program: torch.export.ExportedProgram, *inputs: T) -> bool:
    """What is asserted of the divisions of a program, which are not made."""
    copy = copy_program(program)
    check_divisions(copy.graph_module)
    graph = copy.graph
    (check,) = graph.find_nodes(op="call_function", target=CHECK)
    graph.output_node().args = ((check.args[0],),)
    graph.erase_node(check)
    graph.eliminate_dead_code()
    for module in copy.graph_module.modules():
        if isinstance(module, GraphModule):
            _divide_as_a_gpu_does(module)
    (found,) = Interpreter(copy.graph_module).run(torch.zeros(16, 4), *inputs)
    return bool(found)


@pytest.mark.parametrize("name", _DIVISIONS)
@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
def test_what_is_asserted(dtype: torch.dtype, name: str) -> None:
    (a, b, _), *_ = _arguments(dtype, name)
    program = to_edge(export(_DIVISIONS[name], a, b)).exported_program()
    for a, b, holds in _arguments(dtype, name):
        assert _condition(program, a, b) == holds, (a, b)


def test_the_type_of_the_quotient_counts() -> None:
    """A divisor of 64 bits, which becomes 0 in 32, and a number that is the least in 8."""
    narrow, wide = torch.tensor([7], dtype=torch.int32), torch.tensor(1)
    program = to_edge(export(lambda a, b: a // b, narrow, wide)).exported_program()
    assert _condition(program, narrow, wide)
    assert not _condition(program, narrow, torch.tensor(2**32))
    least, minus = torch.tensor([-128], dtype=torch.int8), torch.tensor([-1])
    program = to_edge(export(lambda a, b: a // b, least, minus)).exported_program()
    assert _condition(program, least, minus)


_ROWS = torch.export.Dim("rows", min=2, max=64)


@pytest.mark.parametrize(
    "function, shapes, checks",
    [
        (lambda a, b: a // b + a % b, None, 1),
        (lambda a, b: 64 % b, None, 1),
        (lambda a, b: a // b[0].item(), None, 1),
        (lambda a, b: torch.div(a, -1, rounding_mode="trunc"), None, 1),
        (lambda a, b: a // 3 + b % 5, None, 0),
        (lambda a, b: a % -1, None, 0),
        (lambda a, b: a // a.shape[0], ({0: _ROWS}, None), 0),
        (lambda a, b: a / b, None, 0),
        (lambda a, b: a.float() // b.float(), None, 0),
    ],
)
def test_where_there_is_a_check(function: Callable[..., Any], shapes: Any, checks: int) -> None:
    a = torch.arange(8)
    program = export(function, a, a + 1, dynamic_shapes=(shapes,) if shapes else None)
    edge = to_edge(program).to_backend(CudaPartitioner(SM_90)).exported_program()
    assert len(lowered_modules(edge.graph_module)) == 1
    found = edge.graph.find_nodes(op="call_function", target=CHECK)
    assert len(found) == checks
    if checks:
        assert "an integer is divided by 0, or the least number by -1: aten." in found[0].args[1]
        assert "test_cuda_checks.py:" in found[0].args[1]


def _branch(a: T, b: T) -> T:
    return torch.cond(a.sum() > 0, lambda a, b: a // b, lambda a, b: a + b, (a, b)) + 1


def _branch_of_branch(a: T, b: T) -> T:
    def inner(a: T, b: T) -> T:
        return torch.cond(b.max() > 2, lambda a, b: a % b, lambda a, b: a * b, (a, b))

    return torch.cond(a.sum() > 0, inner, lambda a, b: (a + b).clone(), (a, b))


def _body(a: T, b: T) -> T:
    def step(count: T, a: T, b: T) -> tuple[T, T, T]:
        return count + 1, a // b, b.clone()

    start = torch.zeros((), dtype=torch.int64, device=a.device)
    return torch.while_loop(lambda count, a, b: count < 3, step, (start, a, b))[1]


def _decision(a: T, b: T) -> T:
    """After two rounds the divisor of what decides is smaller by 2."""

    def goes_on(a: T, b: T) -> T:
        return ((a // b).sum() < 9) & (a.sum() < 30)

    return torch.while_loop(goes_on, lambda a, b: (a + 1, b - 1), (a, b))[0]


def _rows(a: T, b: T) -> T:
    return map_rows(lambda row, b: row // b, torch.stack([a, a]), b)


def _steps(a: T, b: T) -> T:
    def step(carry: T, row: T) -> tuple[T, T]:
        return carry + row, carry // row

    return scan(step, a, torch.stack([b, b + 1]))[1]


_MORE: list[tuple[Callable[..., Any], T, T, bool]] = [
    (_branch, torch.tensor([7, 8, 9]), torch.tensor([1, 2, 3]), True),
    (_branch, torch.tensor([7, 8, 9]), torch.tensor([1, 0, 3]), False),
    (_branch, torch.tensor([-7, -8, -9]), torch.tensor([1, 0, 3]), True),
    (_branch_of_branch, torch.tensor([7, 8, 9]), torch.tensor([1, 2, 3]), True),
    (_branch_of_branch, torch.tensor([7, 8, 9]), torch.tensor([1, 0, 3]), False),
    (_branch_of_branch, torch.tensor([7, 8, 9]), torch.tensor([1, 0, 1]), True),
    (_body, torch.tensor([7, 8, 9]), torch.tensor([1, 2, 3]), True),
    (_body, torch.tensor([7, 8, 9]), torch.tensor([1, 0, 3]), False),
    (_body, torch.tensor([LEAST, 8, 9]), torch.tensor([-1, 2, 3]), False),
    (_decision, torch.tensor([7, 8, 9]), torch.tensor([40, 40, 40]), True),
    (_decision, torch.tensor([70, 80, 90]), torch.tensor([1, 0, 1]), False),
    (_decision, torch.tensor([0, 0, 0]), torch.tensor([2, 2, 2]), False),
    (_rows, torch.tensor([7, 8, 9]), torch.tensor([1, 2, 3]), True),
    (_rows, torch.tensor([7, 8, 9]), torch.tensor([1, 2, 0]), False),
    (_steps, torch.tensor([7, 8, 9]), torch.tensor([1, 2, 3]), True),
    (_steps, torch.tensor([7, 8, 9]), torch.tensor([1, 2, -1]), False),
]
_in_branches_and_loops = pytest.mark.parametrize(("function", "a", "b", "holds"), _MORE)


@_in_branches_and_loops
def test_what_is_asserted_of_branches_and_loops(
    function: Callable[..., Any], a: T, b: T, holds: bool
) -> None:
    program = to_edge(export(function, a, b.abs() + 1)).exported_program()
    assert _condition(program, a, b) == holds


@pytest.mark.parametrize("function", dict.fromkeys(case[0] for case in _MORE))
def test_branches_and_loops_are_still_one_delegate(function: Callable[..., Any]) -> None:
    program = export(function, torch.tensor([7, 8, 9]), torch.tensor([1, 2, 3]))
    manager = to_edge(program).to_backend(CudaPartitioner(SM_90))
    edge = manager.exported_program()
    assert len(lowered_modules(edge.graph_module)) == 1
    assert len(edge.graph.find_nodes(op="call_function", target=CHECK)) == 1


@NEEDS_GPU
@_in_branches_and_loops
def test_divisions_in_branches_and_loops_are_errors(
    function: Callable[..., Any], a: T, b: T, holds: bool, tmp_path: pathlib.Path
) -> None:
    good = next(case[1:3] for case in _MORE if case[0] is function)
    path = save(lower(export(function, *good)), tmp_path)
    method = load(path).load_method("forward")
    if holds:
        (found,) = method.execute([a, b])
        assert torch.equal(torch.from_dlpack(found).cpu(), function(a, b))
    else:
        with pytest.raises(InvalidArgumentError, match="an integer is divided by 0"):
            method.execute([a, b])


@NEEDS_GPU
@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
def test_divisions_are_errors(dtype: torch.dtype, tmp_path: pathlib.Path) -> None:
    def all_of_them(*inputs: T) -> list[T]:
        pairs = zip(inputs[::2], inputs[1::2], strict=True)
        return [f(a, b) for f, (a, b) in zip(_DIVISIONS.values(), pairs, strict=True)]

    good = [value.clone() for name in _DIVISIONS for value in _arguments(dtype, name)[0][:2]]
    path = save(lower(export(all_of_them, *good)), tmp_path)
    method = load(path).load_method("forward")
    for position, name in enumerate(_DIVISIONS):
        for a, b, holds in _arguments(dtype, name):
            inputs = list(good)
            inputs[2 * position : 2 * position + 2] = a, b
            if holds:
                for found, expected in zip(
                    method.execute(inputs), all_of_them(*inputs), strict=True
                ):
                    assert torch.equal(torch.from_dlpack(found).cpu(), expected)
            else:
                with pytest.raises(InvalidArgumentError, match="an integer is divided by 0"):
                    method.execute(inputs)


@NEEDS_GPU
def test_pivots_that_are_no_rows_leave_memory_alone(tmp_path: pathlib.Path) -> None:
    lu, pivots = torch.linalg.lu_factor(torch.randn(3, 16, 16) + 8 * torch.eye(16))
    b = torch.randn(3, 16, 4)
    path = save(lower(export(torch.linalg.lu_solve, lu, pivots, b)), tmp_path)
    method = load(path).load_method("forward")
    for row in (0, 17, 2**31 - 1, -(2**31)):
        method.execute([lu, torch.full_like(pivots, row), b])
    (found,) = method.execute([lu, pivots, b])
    expected = torch.linalg.lu_solve(lu, pivots, b)
    torch.testing.assert_close(torch.from_dlpack(found).cpu(), expected)
