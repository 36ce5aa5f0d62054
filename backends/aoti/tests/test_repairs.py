"""What Inductor gets wrong comes out right: generated code, and the graphs that lead to it."""

import contextlib
import dataclasses
import inspect
import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch
import torch.nn.functional as F
from torch._inductor.codegen import simd
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
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
from pteron.backends.aoti.passes.remove_metadata_asserts import RemoveMetadataAssertsPass
from tests.models.cases import Applies, Together
from tests.models.inductor_faults import CASES


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


class Chooses(torch.nn.Module):
    """Branches and a convolution read the same tensor; the convolution wants it channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(8, 8, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        z = self.convolution(y)
        return torch.cond(x.sum() > 0, lambda y: y.sum(1), lambda y: y.amax(1), (y,)), z


@dataclasses.dataclass(frozen=True)
class Bug:
    """What shows that a repair is needed.

    Attributes:
        model: the name of a known fault, or a module or a function of its inputs and, if it has
            one, of a parameter.
        has_bug: whether it is in the C++ code that Inductor makes, or in the constants.
        inputs: of a model that is not a known fault.
        parameter: the shape of the parameter, if there is one.
        dynamic: the `dynamic_shapes` of `torch.export`.
    """

    model: str | Callable[..., Any]
    has_bug: Callable[[str, list[torch.Tensor]], bool]
    inputs: tuple[torch.Tensor, ...] = ()
    parameter: tuple[int, ...] = ()
    dynamic: Any = None

    def export(self) -> ExportedProgram:
        model, inputs = self.model, self.inputs
        if isinstance(model, str):
            model = Together([CASES[model]])
            inputs = model.inputs()
        elif not isinstance(model, torch.nn.Module):
            model = Applies(model, *self.parameter)
            for parameter in model.parameters():  # no element is zero, what is padded is
                parameter.data.view(-1).copy_(torch.arange(1.0, 1 + parameter.numel()))
        program = torch.export.export(model.eval(), inputs, dynamic_shapes=self.dynamic)
        program = program.run_decompositions()
        RemoveMetadataAssertsPass()(program.graph_module)
        return program


def _without(text: str) -> Callable[[str, list[torch.Tensor]], bool]:
    return lambda code, _: text not in code


def _with(pattern: str) -> Callable[[str, list[torch.Tensor]], bool]:
    return lambda code, _: re.search(pattern, code) is not None


_SQUARE, _BATCH = torch.randn(16, 16), torch.export.Dim("batch", min=2, max=64)
_INTS = torch.ones(2, 16, 16, dtype=torch.int32)
#: By repair. Views of other kinds are in tests/e2e/test_parameter_views.py.
BUGS: dict[str, Bug] = {
    "fix_int8_minmax_reductions": Bug("191499_uint8", _with("vec_reduce_all<uint8_t")),
    "fix_argminmax_index_order": Bug(
        lambda x, y: (x.t() + y).argmax(),
        _with(r"combine.*\b16L?\*x0 \+ x1"),
        (_SQUARE, _SQUARE),
    ),
    "fix_reduction_tail_stores": Bug(
        "196681_tail_of_two_tiled_loops",
        lambda code, _: not re.search(r"acc\w+\.store\(.*, static_cast<int64_t>\(6L?\)\)", code),
    ),
    "fix_int64_arange_step": Bug("175966_multiples_of_an_index", _with(r"arange\(\w+, \d+\)")),
    "fix_floor_division_rounding": Bug(lambda x, y: x // y, _without("fmod"), (_SQUARE, _SQUARE)),
    "fix_remainder_rounding": Bug(lambda x, y: x % y, _without("fmod"), (_SQUARE, _SQUARE)),
    "fix_cumsum_of_constant_dtype": Bug(
        lambda x: (torch.ones(4, dtype=torch.bool).cumsum(0, dtype=torch.float64), x + 1),
        _without("torch_dtype_float64"),
        (_SQUARE,),
    ),
    "fix_as_strided_of_view": Bug("175325_as_strided_of_a_view", _with(r"\{6L, 16L\}")),
    "fix_reinterpret_view_after_mutation": Bug(
        "masked_after_a_view",
        _without("out_ptr2"),  # one loop is to read the sums, not what is masked
    ),
    "fix_fusion_of_mutation_with_reads": Bug("198270_flipped_after_a_write", _without("out_ptr3")),
    "fix_masked_load_bounds": Bug(
        lambda x: F.pad(x > 0, (3, 2)).float(),
        lambda code, _: code.count(".template loadu<") > 1,  # in the tail, too
        (torch.randn(5, 21),),
    ),
    "fix_index_propagation_dtypes": Bug(
        lambda x: x + torch.arange(300).to(torch.uint8).float(),
        _without("uint8_t"),
        (torch.randn(300),),
    ),
    "fix_decomposed_matmul_dtypes": Bug(
        lambda x, y: x[:, :1] @ y, _without("int32_t* out_ptr"), (_INTS, _INTS)
    ),
    "fix_gemm_with_zero_rows": Bug(
        lambda x, p: F.linear(x, p),
        lambda code, _: not re.search(r"\bM (==|<=|<) [01]\b", code),
        (_SQUARE,),
        parameter=(32, 16),
        dynamic=(({0: _BATCH},),),
    ),
    "keep_rounding_conversions": Bug(
        lambda x: x.half().bfloat16(), _without("convert<at::Half"), (_SQUARE,)
    ),
    "round_half_precision_as_eager": Bug(
        lambda x: torch.floor(x * 3),
        lambda code, _: code.count("convert<at::Half") < 2,
        (_SQUARE.half(),),
    ),
    "keep_nan_times_zero": Bug(lambda x: x * 0, _without("in_ptr0"), (_SQUARE,)),
    "require_traced_cond_operand_strides": Bug(
        Chooses(), _without("{648L, 81L, 9L, 1L};"), (torch.randn(2, 8, 9, 9),)
    ),
    "disable_mm_plus_mm_on_cpu": Bug("sum_of_products", _with("mm_plus_mm")),
    "fix_packed_weight_storage_offset": Bug(
        lambda x, p: F.linear(x, p[32:]),
        lambda _, packed: (
            not torch.equal(
                torch.cat([c[c != 0] for c in packed]).sort().values, torch.arange(1025.0, 3073)
            )
        ),
        (torch.randn(24, 32),),
        parameter=(96, 32),
    ),
    "fix_packed_weight_of_dynamic_bmm": Bug(
        lambda x, p: F.linear(x.transpose(0, 1).exp(), p),
        lambda _, constants: sum(constant.numel() for constant in constants) != 7 * 4,
        (torch.randn(8, 5, 4),),
        parameter=(7, 4),
        dynamic=(({1: _BATCH},),),
    ),
    "fix_rounding_of_pooled_sizes": Bug(
        lambda x: F.max_pool2d(x, 2, ceil_mode=True),
        _without("1L + ks0"),
        (torch.randn(1, 2, 16, 16),),
        dynamic=(({2: torch.export.Dim.AUTO(min=4, max=64)},),),
    ),
    "fix_folded_scale_names": Bug(
        ScalesConvolutions(),
        lambda _, constants: sorted(c.unique().item() for c in constants) != [0.25, 0.5],
        (torch.randn(2, 4, 9),),
    ),
    "skip_folding_into_transposed_convolutions": Bug(
        ScalesTransposed(),
        # Folded, weights are another number for each output channel, their second dimension.
        lambda _, constants: any(
            not torch.equal(c, c[:1].expand(c.shape)) for c in constants if c.dim() == 3
        ),
        (torch.randn(2, 4, 9),),
    ),
}


@pytest.mark.parametrize("name", BUGS)
@pytest.mark.parametrize("repaired", [True, False])
def test_the_bug_is_not_in_the_code(
    name: str, repaired: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not repaired:
        leave_out(name, monkeypatch)
    code = inductor.generate(BUGS[name].export(), Target("cpu", 256, 1))
    found = BUGS[name].has_bug(code.model + code.kernels, [c.tensor for c in code.constants])
    assert found != repaired, "" if repaired else "torch has fixed this: remove the workaround"


#: Without the repair, these are not lowered.
FAILURES = {
    "realize_constant_while_loop_inputs": (Counts, "Constant"),
    "fix_while_loop_mutation_outputs": (Scans, ""),
}


@pytest.mark.parametrize("name", FAILURES)
def test_without_the_repair_it_is_not_lowered(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, message = FAILURES[name]
    program = exported(model(), torch.randn(4, 3))
    leave_out(name, monkeypatch)
    with pytest.raises(Exception, match=message):  # else remove the workaround
        inductor.generate(program, Target("cpu", 256, 1))


@pytest.mark.parametrize("repaired", [True, False])
def test_an_int_array_is_declared_once(repaired: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not repaired:
        leave_out("fix_int_array_deduplication", monkeypatch)
    wrapper = object.__new__(CppWrapperCpu)
    wrapper.__dict__ |= {
        "int_array_id": itertools.count(),
        "declared_int_array_vars": set(),
        "codegen_int_array_var_cache": {},
    }
    lines: list[str] = []
    writes = [lines.append, lines.append]  # bound methods with ids of their own
    with patches.repaired(inductor.release()):
        names = {wrapper.codegen_int_array_var("{1L}", write, True) for write in writes}
    assert len(names) == len(lines) == (1 if repaired else 2)


#: Left out below, by tests of their own, or in backends/cuda/tests/test_absent_gpu.py.
OTHERS = {
    *("fix_bool_eq_value_ranges", "fix_cant_split_arguments", "fix_identity_comparison"),
    *("fix_int_array_deduplication", "fix_reinplace_before_overwrite"),
    *("fix_reinplace_of_overlapping_reads", "fix_fft_strides"),
    *("freeze_flex_decoding_query_layout", "keep_traced_strides_of_complex_views"),
}


def test_a_test_leaves_each_repair_out() -> None:
    assert {*BUGS, *FAILURES, *OTHERS} == patches.REPAIRS.keys()


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
