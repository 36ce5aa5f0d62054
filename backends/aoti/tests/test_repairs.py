"""What Inductor gets wrong comes out right: generated code, and the graphs that lead to it."""

import contextlib
import dataclasses
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
from tests.models.cases import Applies


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
    assert isinstance(call.target, torch._ops.OpOverload)  # it is hidden no more
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


def _padded_product(x: torch.Tensor) -> torch.Tensor:
    v = F.gelu(x.permute(0, 3, 1, 2))
    left = F.pad(v, (0, 0, 0, 0, 0, 14), value=0.5)
    return left @ F.pad(v.permute(3, 2, 1, 0), (0, 0, 0, 14), value=0.5)


def _masked_after_a_view(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x.sort(0)[0]
    doubled = y.view(-1) * 2
    y[y > 0.5] = 0.25
    return doubled, y


class ScalesConvolutions(torch.nn.Module):
    """Multiplies the results of two convolutions by different scalars."""

    def __init__(self) -> None:
        super().__init__()
        self.v = torch.nn.Parameter(torch.ones(4, 4, 3))
        self.w = torch.nn.Parameter(torch.ones(4, 4, 3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.conv1d(x, self.v) * 0.5, F.conv1d(x + 1, self.w) * 0.25


class ScalesTransposed(torch.nn.Module):
    """Multiplies what a transposed convolution returns by a number for each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(4, 4, 3))
        self.p = torch.nn.Parameter(torch.arange(1.0, 5).view(4, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv_transpose1d(x, self.w) * self.p


@dataclasses.dataclass(frozen=True)
class Bug:
    """What shows that a repair is needed.

    Attributes:
        model: a module or a function of its inputs and, if it has one, of a parameter.
        has_bug: whether it is in the C++ code that Inductor makes, or in the constants.
        parameter: the shape of the parameter, if there is one.
        dynamic: the `dynamic_shapes` of `torch.export`.
    """

    model: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    has_bug: Callable[[str, list[torch.Tensor]], bool]
    parameter: tuple[int, ...] = ()
    dynamic: Any = None


_SQUARE, _BATCH = torch.randn(16, 16), torch.export.Dim("batch", min=2, max=64)
#: By repair. Views of other kinds are in tests/e2e/test_parameter_views.py.
BUGS: dict[str, Bug] = {
    "fix_int8_minmax_reductions": Bug(
        lambda x: x.amin(),
        (torch.ones(64, dtype=torch.uint8),),
        lambda code, _: "vec_reduce_all<uint8_t" in code,
    ),
    "fix_argminmax_index_order": Bug(
        lambda x, y: (x.t() + y).argmax(),
        (_SQUARE, _SQUARE),
        lambda code, _: re.search(r"combine.*\b16L?\*x0 \+ x1", code) is not None,
    ),
    "fix_reduction_tail_stores": Bug(
        _padded_product,
        (torch.randn(1, 22, 22, 8),),
        lambda code, _: not re.search(r"acc\w+\.store\(.*, static_cast<int64_t>\(6L?\)\)", code),
    ),
    "fix_int64_arange_step": Bug(
        lambda x: torch.arange(11) * 10**9 + x,
        (torch.ones(1, dtype=torch.int64),),
        lambda code, _: re.search(r"arange\(\w+, \d+\)", code) is not None,
    ),
    "fix_floor_division_rounding": Bug(
        lambda x, y: x // y,
        (_SQUARE, _SQUARE),
        lambda code, _: "fmod" not in code,
    ),
    "fix_cumsum_of_constant_dtype": Bug(
        lambda x: (torch.ones(4, dtype=torch.bool).cumsum(0, dtype=torch.float64), x + 1),
        (_SQUARE,),
        lambda code, _: "torch_dtype_float64" not in code,
    ),
    "fix_as_strided_of_view": Bug(
        lambda x: (x * 2)[2:].as_strided((2, 16), (16, 1), 16),
        (_SQUARE,),
        lambda code, _: "static_cast<int64_t>(224L)" in code,  # the elements of 14 rows
    ),
    "fix_reinterpret_view_after_mutation": Bug(
        _masked_after_a_view,
        (_SQUARE,),
        lambda code, _: "out_ptr1" not in code,  # one loop is to read the sorted, not the masked
    ),
    "disable_mm_plus_mm_on_cpu": Bug(
        lambda x, y: x @ y + y @ x,
        (_SQUARE, _SQUARE),
        lambda code, _: "mm_plus_mm" in code,
    ),
    "fix_packed_weight_storage_offset": Bug(
        lambda x, p: F.linear(x, p[32:]),
        (torch.randn(24, 32),),
        lambda _, packed: (
            not torch.equal(
                torch.cat([c[c != 0] for c in packed]).sort().values, torch.arange(1025.0, 3073)
            )
        ),
        parameter=(96, 32),
    ),
    "fix_packed_weight_of_dynamic_bmm": Bug(
        lambda x, p: F.linear(x.transpose(0, 1).exp(), p),
        (torch.randn(8, 5, 4),),
        lambda _, constants: sum(constant.numel() for constant in constants) != 7 * 4,
        parameter=(7, 4),
        dynamic=(({1: _BATCH},),),
    ),
    "fix_folded_scale_names": Bug(
        ScalesConvolutions(),
        (torch.randn(2, 4, 9),),
        lambda _, constants: sorted(c.unique().item() for c in constants) != [0.25, 0.5],
    ),
    "skip_folding_into_transposed_convolutions": Bug(
        ScalesTransposed(),
        (torch.randn(2, 4, 9),),
        # Folded, weights are another number for each output channel, their second dimension.
        lambda _, constants: any(
            not torch.equal(c, c[:1].expand(c.shape)) for c in constants if c.dim() == 3
        ),
    ),
}


@pytest.mark.parametrize("name", BUGS)
@pytest.mark.parametrize("repaired", [True, False])
def test_the_bug_is_not_in_the_code(
    name: str, repaired: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not repaired:
        leave_out(name, monkeypatch)
    bug = BUGS[name]
    model = bug.model
    if not isinstance(model, torch.nn.Module):
        model = Applies(model, *bug.parameter)
        for parameter in model.parameters():  # no element is zero, what is padded is
            parameter.data.view(-1).copy_(torch.arange(1.0, 1 + parameter.numel()))
    program = torch.export.export(model.eval(), bug.inputs, dynamic_shapes=bug.dynamic)
    code = inductor.generate(program.run_decompositions(), Target("cpu", 256, 1))
    found = bug.has_bug(code.model + code.kernels, [c.tensor for c in code.constants])
    assert found != repaired, "" if repaired else "torch has fixed this: remove the workaround"


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
