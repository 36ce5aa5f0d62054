"""What Inductor gets wrong comes out right: generated code, and the graphs that lead to it."""

import contextlib
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch
import torch.nn.functional as F
from torch._inductor.codegen import simd
from torch.export import ExportedProgram
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._sympy.functions import Identity, Max

from pteron.backends.aoti import inductor
from pteron.backends.aoti.inductor import (
    Target,
    graph_repairs,
    patches,
)
from pteron.backends.aoti.op_support import OpSupport


def leave_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a repair, in a release that has the bug."""
    _, releases = patches.REPAIRS[name]
    if releases and inductor.release() not in releases:
        pytest.skip(f"torch {inductor.release()} does not have this bug")
    monkeypatch.delitem(patches.REPAIRS, name)


def exported(module: torch.nn.Module, *inputs: torch.Tensor) -> ExportedProgram:
    return torch.export.export(module.eval(), inputs).run_decompositions()


class AddsToItself(torch.nn.Module):
    """Adds columns of a tensor to others of the same one."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("index", torch.tensor([0, 1, 1, 0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return y.index_add(-1, self.index, y[..., :1].expand(-1, 4))


def written_in_place(program: ExportedProgram) -> bool:
    """Whether Inductor's pass lets the call of `index_put` write its argument."""
    from torch._inductor.fx_passes import reinplace

    graph = program.graph_module.graph
    with torch.no_grad():
        reinplace.reinplace_inplaceable_ops_core(graph)
    (call,) = [n for n in graph.nodes if "index_put" in str(n.target)]
    assert call.target is not graph_repairs._hidden_target
    return "index_put_" in str(call.target)


def test_a_call_does_not_write_what_it_reads() -> None:
    model, x = AddsToItself(), torch.randn(16, 2)
    assert written_in_place(exported(model, x)), "torch has fixed this: remove the workaround"
    with graph_repairs.fix_reinplace_of_overlapping_reads():
        assert not written_in_place(exported(model, x))


def test_other_calls_still_write_in_place() -> None:
    class Adds(torch.nn.Module):
        def forward(self, x: torch.Tensor, index: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.sin().index_add(0, index, y)

    inputs = torch.randn(4, 2), torch.tensor([0, 0]), torch.randn(2, 2)
    with graph_repairs.fix_reinplace_of_overlapping_reads():
        assert written_in_place(exported(Adds(), *inputs))


class Counts(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count, y = torch.while_loop(
            lambda count, y: count < 3,
            lambda count, y: (count + 1, y * 2),
            (torch.tensor(0), x),
        )
        return y + count


class Maps(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from torch._higher_order_ops.map import map as map_rows

        return map_rows(lambda row, bias: row.sin() + bias, x, x[0] * 0.5)


class Scans(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from torch._higher_order_ops.scan import scan

        def step(carry: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return carry + row, carry * row

        last, rows = scan(step, torch.zeros_like(x[0]), x)
        return rows + last


@pytest.mark.parametrize("model", [Counts, Maps, Scans])
@pytest.mark.parametrize("freeze", [True, False])
def test_loops_are_generated(model: type[torch.nn.Module], freeze: bool) -> None:
    program = exported(model(), torch.randn(4, 3))
    target = Target("cpu", 256, 1, freeze=freeze)
    support = OpSupport(target, frozenset())
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    assert [reason for node in calls if (reason := support.reason(node))] == []
    code = inductor.generate(program, target)
    assert "while (" in code.model and not code.proxied


def _module(shape: tuple[int, ...], op: Callable[[Any, Any], torch.Tensor]) -> torch.nn.Module:
    class Applies(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            values = torch.arange(1.0, 1 + torch.Size(shape).numel())
            self.p = torch.nn.Parameter(values.reshape(shape))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return op(x, self.p)

    return Applies()


_MATRIX, _BATCH = torch.randn(24, 32), torch.randn(2, 24, 32)
VIEWS_OF_PARAMETERS = {
    "rows": (_MATRIX, (96, 32), lambda x, p: F.linear(x, p[32:]), lambda p: p[32:]),
    "chunk": (_MATRIX, (96, 32), lambda x, p: F.linear(x, p.chunk(3)[2]), lambda p: p[64:]),
    "transposed": (_MATRIX, (32, 48), lambda x, p: F.linear(x, p.t()[8:]), lambda p: p[:, 8:]),
    "columns": (_MATRIX, (64, 48), lambda x, p: F.linear(x, p[:, 8:40]), lambda p: p[:, 8:40]),
    "stacked": (_MATRIX, (3, 40, 32), lambda x, p: F.linear(x, p[1]), lambda p: p[1]),
    "right": (_MATRIX, (64, 48), lambda x, p: x @ p[16:48], lambda p: p[16:48]),
    "batches": (_BATCH, (3, 32, 32), lambda x, p: torch.bmm(x, p[1:]), lambda p: p[1:]),
}


@pytest.mark.parametrize("name", VIEWS_OF_PARAMETERS)
@pytest.mark.parametrize("repaired", [True, False])
def test_views_of_parameters_are_packed_from_their_offset(
    name: str, repaired: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, shape, op, view = VIEWS_OF_PARAMETERS[name]
    if not repaired:
        leave_out("fix_packed_weight_storage_offset", monkeypatch)
    model = _module(shape, op)
    code = inductor.generate(exported(model, x), Target("cpu", 256, 1))
    (packed,) = (constant.tensor.flatten() for constant in code.constants)
    found = packed[packed != 0].sort().values  # no element of the parameter is zero, padding is
    right = torch.equal(found, view(model.p.detach()).flatten().sort().values)
    assert right == repaired, "" if repaired else "torch has fixed this: remove the workaround"


def _padded_product(x: torch.Tensor) -> torch.Tensor:
    v = F.gelu(x.permute(0, 3, 1, 2))
    left = F.pad(v, (0, 0, 0, 0, 0, 14), value=0.5)
    return left @ F.pad(v.permute(3, 2, 1, 0), (0, 0, 0, 14), value=0.5)


def _masked_after_a_view(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x.sort(0)[0]
    doubled = y.view(-1) * 2
    y[y > 0.5] = 0.25
    return doubled, y


_SQUARE = torch.randn(16, 16)
#: By repair: a computation, its inputs, and what the code is like that Inductor makes of it.
BUGS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], Callable[[str], bool]]] = {
    "fix_int8_minmax_reductions": (
        lambda x: x.amin(),
        (torch.ones(64, dtype=torch.uint8),),
        lambda code: "vec_reduce_all<uint8_t" in code,
    ),
    "fix_argminmax_index_order": (
        lambda x, y: (x.t() + y).argmax(),
        (_SQUARE, _SQUARE),
        lambda code: re.search(r"combine.*\b16L?\*x0 \+ x1", code) is not None,
    ),
    "fix_reduction_tail_stores": (
        _padded_product,
        (torch.randn(1, 22, 22, 8),),
        lambda code: not re.search(r"acc\w+\.store\(.*, static_cast<int64_t>\(6L?\)\)", code),
    ),
    "fix_int64_arange_step": (
        lambda x: torch.arange(11) * 10**9 + x,
        (torch.ones(1, dtype=torch.int64),),
        lambda code: re.search(r"arange\(\w+, \d+\)", code) is not None,
    ),
    "fix_floor_division_rounding": (
        lambda x, y: x // y,
        (_SQUARE, _SQUARE),
        lambda code: "fmod" not in code,
    ),
    "fix_cumsum_of_constant_dtype": (
        lambda x: (torch.ones(4, dtype=torch.bool).cumsum(0, dtype=torch.float64), x + 1),
        (_SQUARE,),
        lambda code: "torch_dtype_float64" not in code,
    ),
    "fix_as_strided_of_view": (
        lambda x: (x * 2)[2:].as_strided((2, 16), (16, 1), 16),
        (_SQUARE,),
        lambda code: "static_cast<int64_t>(224L)" in code,  # the elements of 14 rows
    ),
    "fix_reinterpret_view_after_mutation": (
        _masked_after_a_view,
        (_SQUARE,),
        lambda code: "out_ptr1" not in code,  # one loop is to read the sorted, not the masked
    ),
    "disable_mm_plus_mm_on_cpu": (
        lambda x, y: x @ y + y @ x,
        (_SQUARE, _SQUARE),
        lambda code: "mm_plus_mm" in code,
    ),
}


@pytest.mark.parametrize("name", BUGS)
@pytest.mark.parametrize("repaired", [True, False])
def test_the_bug_is_not_in_the_code(
    name: str, repaired: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    op, inputs, has_bug = BUGS[name]
    if not repaired:
        leave_out(name, monkeypatch)

    class Applies(torch.nn.Module):
        def forward(self, *inputs: torch.Tensor) -> Any:
            return op(*inputs)

    code = inductor.generate(exported(Applies(), *inputs), Target("cpu", 256, 1))
    found = has_bug(code.model + code.kernels)
    assert found != repaired, "" if repaired else "torch has fixed this: remove the workaround"


@pytest.mark.parametrize("repaired", [True, False])
def test_no_weight_is_packed_for_batches_of_any_number(
    repaired: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not repaired:
        leave_out("fix_packed_weight_of_dynamic_bmm", monkeypatch)

    class Transposes(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 7, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x.transpose(0, 1).exp())

    batch = torch.export.Dim("batch", min=2, max=64)
    model, inputs = Transposes().eval(), (torch.randn(8, 5, 4),)
    program = torch.export.export(model, inputs, dynamic_shapes=({1: batch},))
    code = inductor.generate(program.run_decompositions(), Target("cpu", 256, 1))
    elements = sum(constant.tensor.numel() for constant in code.constants)
    message = "" if repaired else "torch has fixed this: remove the workaround"
    assert (elements == model.linear.weight.numel()) == repaired, message


class ComparesSigns(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        numbers = torch.arange(4)
        return (x > 0) == (y > 0), x + ((numbers < 2) == (numbers < 3))


def test_bool_tensors_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    program = exported(ComparesSigns(), torch.randn(4), torch.randn(4))
    assert inductor.generate(program, Target("cpu", 256, 1)).kernels
    leave_out("fix_bool_eq_value_ranges", monkeypatch)
    with pytest.raises(Exception, match="Boolean argument"):  # else remove the workaround
        inductor.generate(program, Target("cpu", 256, 1))


def _overwritten(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    y = torch.ops.aten.index_put(x, [index], source)
    x.copy_(source.expand_as(x))
    return y + 1


def _put_back(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    y = torch.ops.aten.index_put(x, [index], source)
    x.copy_(torch.ops.aten.index_put(y, [index], source))
    return source + 1


@pytest.mark.parametrize(
    ("function", "repaired", "expected"),
    [(_overwritten, True, 0), (_overwritten, False, 1), (_put_back, True, 2)],
)
def test_inputs_are_written_where_nobody_sees_it(
    function: Callable[..., Any], repaired: bool, expected: int
) -> None:
    from torch._inductor.fx_passes import reinplace

    inputs = torch.randn(4, 6), torch.tensor([1]), torch.randn(6)
    graph = make_fx(function, tracing_mode="fake")(*inputs).graph
    with graph_repairs.fix_reinplace_before_overwrite() if repaired else contextlib.nullcontext():
        reinplace.reinplace_inplaceable_ops_core(graph)
    found = sum("index_put_" in str(node.target) for node in graph.nodes)
    assert found == expected, "" if repaired else "torch has fixed this: remove the workaround"


class ScalesConvolutions(torch.nn.Module):
    """Multiplies the results of two convolutions by different scalars."""

    def __init__(self) -> None:
        super().__init__()
        self.v = torch.nn.Parameter(torch.ones(4, 4, 3))
        self.w = torch.nn.Parameter(torch.ones(4, 4, 3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.conv1d(x, self.v) * 0.5, F.conv1d(x + 1, self.w) * 0.25


@pytest.mark.parametrize("repaired", [True, False])
def test_each_convolution_is_multiplied_by_its_own_scalar(
    repaired: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not repaired:
        leave_out("fix_folded_scale_names", monkeypatch)
    program = exported(ScalesConvolutions(), torch.randn(2, 4, 9))
    code = inductor.generate(program, Target("cpu", 256, 1))
    found = sorted(constant.tensor.unique().item() for constant in code.constants)
    right = found == [0.25, 0.5]
    assert right == repaired, "" if repaired else "torch has fixed this: remove the workaround"


class ScalesTransposed(torch.nn.Module):
    """Multiplies what a transposed convolution returns by a number for each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(4, 4, 3))
        self.p = torch.nn.Parameter(torch.arange(1.0, 5).view(4, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv_transpose1d(x, self.w) * self.p


@pytest.mark.parametrize("repaired", [True, False])
def test_transposed_convolutions_keep_their_weights(
    repaired: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not repaired:
        leave_out("skip_folding_into_transposed_convolutions", monkeypatch)
    code = inductor.generate(
        exported(ScalesTransposed(), torch.randn(2, 4, 9)), Target("cpu", 256, 1)
    )
    # Folded, they would be another number for each output channel, their second dimension.
    weights = [c.tensor for c in code.constants if c.tensor.shape == (4, 4, 3)]
    right = all(torch.equal(weight, weight[:1].expand(4, 4, 3)) for weight in weights)
    assert right == repaired, "" if repaired else "torch has fixed this: remove the workaround"


def test_constants_that_are_not_folded_are_compared() -> None:
    index = Identity(sympy.Integer(0)) + 1
    with pytest.raises(ValueError, match="not comparable"):
        Max(index, sympy.Integer(3))
    sympy.core.cache.clear_cache()
    with patches.repaired(inductor.release()):
        assert Max(index, sympy.Integer(3)).replace(Identity, lambda value: value) == 3
        assert Max(index, sympy.Integer(0)).replace(Identity, lambda value: value) == 1
    sympy.core.cache.clear_cache()


def test_a_loop_that_does_not_divide_is_no_error_of_its_own() -> None:
    if inductor.release() in patches.REPAIRS["fix_cant_split_arguments"][1]:
        assert "raise CantSplit\n" in inspect.getsource(simd)
        with patches.repaired(inductor.release()), pytest.raises(simd.CantSplit):
            raise simd.CantSplit  # type: ignore[call-arg]
    else:
        assert "raise CantSplit\n" not in inspect.getsource(simd)
    with pytest.raises(simd.CantSplit, match="7 not divisible by 3"):
        raise simd.CantSplit(7, 3)
