"""What passes for rounding, and what does not."""

import math
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch.fx.experimental.proxy_tensor import make_fx

from pteron.exir.verification.comparison import (
    RESOLUTION,
    TIMES_ROUNDING,
    compare,
    errors,
    rounding_of,
)
from pteron.exir.verification.interpreters import PreciseInterpreter, RoundingInterpreter

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("found", "expected", "off"),
    [
        (torch.tensor([1.0, 4.0]), torch.tensor([1.0, 4.0]), [0, 0]),
        (torch.tensor([1.0, 3.0]), torch.tensor([1.0, 4.0]), [0, 1]),
        (torch.tensor([NAN, 4.0]), torch.tensor([NAN, 4.0]), [0, 0]),
        (torch.tensor([NAN, 4.0]), torch.tensor([1.0, 4.0]), [INF, 0]),
        (torch.tensor([1.0, 4.0]), torch.tensor([NAN, 4.0]), [INF, 0]),
        (torch.tensor([INF, 4.0]), torch.tensor([INF, 2.0]), [0, 2]),
        (torch.tensor([-INF]), torch.tensor([INF]), [INF]),
        (torch.tensor([INF, NAN]), torch.tensor([NAN, -INF]), [0, 0]),
        (torch.tensor([1.0]), torch.tensor([1.0, 2.0]), None),
        (torch.tensor([1.0]), torch.tensor([1.0]).double(), None),
        (torch.tensor([1, 2, 5]), torch.tensor([1, 2, 3]), [0, 0, 2]),
        (torch.tensor([2**62 + 1]), torch.tensor([2**62]), [1]),
        (torch.tensor([True, False]), torch.tensor([True, True]), [0, 1]),
        (torch.empty(0), torch.empty(0), []),
        (torch.tensor([1 + 3j]), torch.tensor([1 + 2j]), [1]),
        (3, 3, 0),
        (3, 4, 1),
        (0.5, 0.75, 0.25),
        (3, 3.0, None),
        (True, 1, None),
        (None, None, 0),
        (NAN, NAN, 0),
        (3, torch.tensor(3), None),
    ],
)
def test_errors(found: Any, expected: Any, off: Any) -> None:
    result = errors(found, expected)
    assert (None if result is None else result.tolist()) == off


@pytest.mark.parametrize("dtype", RESOLUTION)
def test_half_the_resolution_passes_and_twice_does_not(dtype: torch.dtype) -> None:
    expected = torch.ones(3, dtype=torch.complex128 if dtype.is_complex else torch.float64)
    for factor, passes in ((0.9, True), (2, False)):
        found = expected * (1 + factor * RESOLUTION[dtype])
        (result,) = compare([[found.to(dtype)]], [[expected.to(dtype)]], [])
        assert result.is_equal == passes, f"{dtype}: {result}"


def test_rounding_is_asked_only_where_it_is_needed() -> None:
    def unwanted() -> Any:
        raise AssertionError("nothing is to be explained")

    x = torch.ones(3)
    assert all(r.is_equal for r in compare([[x, 1]], [[x, 1]], [unwanted]))
    (result,) = compare([[-x, 1]], [[x, 1]], [unwanted], left_out={0})
    assert result.index == 1 and result.is_equal


def test_an_element_may_differ_by_so_many_times_its_own_rounding() -> None:
    x = torch.ones(3)
    found = x + torch.tensor([1e-2, 0, 0])
    for known, passes in (([1.1e-2, 0, 0], True), ([0.9e-2, 1, 1], False)):
        rounding = torch.tensor(known, dtype=torch.float64) / TIMES_ROUNDING
        (first,) = compare([[found]], [[x]], [lambda: None, lambda r=rounding: [[r]]])
        assert first.is_equal == passes
    assert first.what == "[0] is 1.01 instead of 1" and first.wrong == 1
    # The worst call counts.
    (first,) = compare([[x], [found]], [[x], [x]], [])
    assert first.wrong == 1 and first.call == 1


@pytest.mark.parametrize("dim", range(3))
def test_small_channels_do_not_hide_behind_large_ones(dim: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 7, 8)
    x.select(dim, 2).mul_(1e-3)
    found = x.clone()
    found.select(dim, 2).mul_(1.01)
    typical = torch.full((6, 7, 8), 1e-7, dtype=torch.float64)
    typical.select(dim, 2).mul_(1e-3)
    (result,) = compare([[found]], [[x]], [lambda: [[typical]]])
    assert result.wrong == x.select(dim, 2).numel()
    (result,) = compare([[x * (1 + 1e-6)]], [[x]], [])
    assert result.is_equal


def test_few_elements_that_a_choice_turned_over_explain_no_others() -> None:
    x = torch.randn(40, 50)
    turned = torch.zeros(40, 50, dtype=torch.float64)
    turned[0, ::10] = 1
    found = x.clone()
    found[1, 1] += 0.1
    found[0, 0] += 1
    (result,) = compare([[found]], [[x]], [lambda: [[turned]]])
    assert result.wrong == 1 and result.what.startswith("[1, 1]")


@pytest.mark.parametrize("values", [[0, 1, 3, 2], [True, False, False, True]])
def test_indices_and_booleans_are_explained_one_by_one(values: list[Any]) -> None:
    found = torch.tensor(values)
    expected = torch.tensor([*values[:2], *values[:1:-1]])

    def other(*turned: int) -> Any:
        changed = torch.zeros(4, dtype=torch.float64)
        changed[list(turned)] = 1
        return lambda: [[changed]]

    (result,) = compare([[found]], [[expected]], [other(0, 1, 2)])
    assert result.wrong == 1 and result.what.startswith("[3]")
    (result,) = compare([[found]], [[expected]], [other(2), other(3)])
    assert result.is_equal


def test_numbers_of_python_are_explained_as_tensors_are() -> None:
    def other(off: float) -> Any:
        return lambda: [[torch.tensor(off, dtype=torch.float64)]]

    assert not compare([[1.0000001]], [[1.0]], [])[0].is_equal
    assert compare([[1.0000001]], [[1.0]], [other(1e-7)])[0].is_equal
    assert not compare([[1.01]], [[1.0]], [other(1e-7)])[0].is_equal
    assert not compare([[3]], [[4]], [other(0)])[0].is_equal
    assert compare([[3]], [[4]], [other(1)])[0].is_equal
    assert not compare([[3]], [[4.0]], [other(1)])[0].is_equal


def test_what_rounding_changes_beyond_recognition_is_not_comparable() -> None:
    x = torch.ones(3)
    (result,) = compare([[x * 0.5]], [[-x]], [lambda: [[torch.ones(3).double()]]])
    assert not result.is_comparable


def test_operands_of_products_have_the_digits_of_a_dtype() -> None:
    x = torch.ones(3)
    (result,) = compare([[x * 1.0009]], [[x]], [])
    assert not result.is_equal
    (result,) = compare([[x * 1.0009]], [[x]], [], products=torch.float16)
    assert result.is_equal
    (result,) = compare([[x * 1.006]], [[x]], [], products=torch.bfloat16)
    assert result.is_equal
    (result,) = compare([[x * 1.002]], [[x]], [], products=torch.float16)
    assert not result.is_equal
    (result,) = compare([[x.double() * 1.0009]], [[x.double()]], [], products=torch.float16)
    assert not result.is_equal


def traced(function: Any, *inputs: torch.Tensor) -> Any:
    """Runs a function with the interpreter that it is given."""
    module = torch.fx.experimental.proxy_tensor.make_fx(function)(*inputs)
    return lambda kind: [[kind(module).run(*inputs)]]


def _rounding(run: Any, count: int = 1, **options: Any) -> torch.Tensor:
    known = [ask() for ask in rounding_of(run, **options)[:count]]
    return torch.stack([calls[0][0] for calls in known]).amax(0)


def test_rounding_of_operands_of_products_is_larger() -> None:
    run = traced(lambda x: torch.sin(x) + 1000 - 1000, torch.linspace(0.1, 1, 9))
    dtypes = (None, torch.float16, torch.bfloat16)  # float16 is for TF32
    by_ulp = [_rounding(run, products=dtype).max().item() for dtype in dtypes]
    assert by_ulp[1] > 1000 * by_ulp[0] > 0
    assert by_ulp[2] > 4 * by_ulp[1]


def test_ties_and_zeros_are_exact() -> None:
    run = traced(lambda x: (x * 2).floor(), torch.tensor([0.5, 1.0, 0.0, 1.5, 2.25]))
    assert _rounding(run, 10).sum() == 0
    # 0.3 as a float32 is somewhat more than that.
    run = traced(lambda x: (x * 10).floor(), torch.tensor([0.3, 0.7]) * (1 - 1e-7))
    assert _rounding(run, 10).sum() > 0


def test_long_sums_round_more_and_large_rows_by_themselves() -> None:
    torch.manual_seed(0)
    of = {}
    for terms in (16, 4096):
        x, w = torch.randn(32, terms), torch.randn(terms, 32)
        w[:, 3] *= 1e-3
        result = _rounding(traced(torch.mm, x, w)) / terms**0.5
        of[terms] = result
        assert result[:, 3].mean() < 3e-3 * result[:, 4].mean()
    assert 8 < of[4096][:, 4].mean() / of[16][:, 4].mean() < 32


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: x @ w,
        lambda x, w: torch.addmm(torch.full((1,), 0.1), x, w),
        lambda x, w: torch.addmm(torch.full((1,), 2000.0), x, w, beta=5e-4, alpha=-0.5),
        lambda x, w: torch.bmm(x[None], w[None]),
        lambda x, w: torch.nn.functional.linear(x, w.t()),
        lambda x, w: torch.conv1d(x[None], w.t()[None]),
    ],
)
def test_small_differences_of_large_terms_round_as_these(function: Any) -> None:
    """Numbers that are exact are not perturbed themselves; the weight is a constant."""
    weight = torch.full((3, 1), 0.3)
    run = traced(lambda x: function(x, weight), torch.tensor([[3000.0, -3000.0, 0.5]]))
    assert 1e-6 < _rounding(run, 2).max() < 1e-3


def test_means_round_as_their_terms() -> None:
    values = torch.tensor([[3000.3, -3000.0, 0.5]])
    run = traced(lambda x: x.mean(1) + values.mean(1), torch.tensor([[0.5, 1.0, 1.5]]))
    assert 1e-6 < _rounding(run, 2).max() < 1e-3


def test_rounding_of_the_last_operators_explains_an_output_of_one_row() -> None:
    """Of which few samples of all operators leave some elements unperturbed, by chance."""
    torch.manual_seed(0)
    *weights, last = (torch.randn(64, size) / 8 for size in (*[64] * 20, 1000))

    def compute(x: torch.Tensor) -> torch.Tensor:
        for weight in weights:
            x = (x @ weight).tanh()
        return x @ last

    x = torch.randn(1, 64)
    graph, kinds = make_fx(compute)(x), list[type]()

    def run(kind: Any) -> Any:
        interpreter = kind(graph)
        kinds.append(type(interpreter))
        return [[interpreter.run(x)]]

    found = PreciseInterpreter(graph).run(x).float()
    (result,) = compare([[found]], [[graph(x)]], rounding_of(run))
    assert result.is_equal and RoundingInterpreter not in kinds


def test_only_the_last_operators_are_perturbed() -> None:
    def negated(x: torch.Tensor) -> torch.Tensor:
        for _ in range(120):
            x = -x
        return x

    x = torch.full((1000,), 1.3)
    found = rounding_of(traced(negated, x))[0]()
    assert found is not None and found[0][0] is not None
    assert 0 < found[0][0].max() <= 20 * torch.finfo(torch.float32).eps * 1.3


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.uint64])
def test_what_c_leaves_open_is_left_open(dtype: torch.dtype) -> None:
    run = traced(lambda x: x.to(dtype).to(torch.int32), torch.tensor([1.0, NAN, 1e30]))
    assert (_rounding(run, 2) > 0).tolist() == [False, True, True]


def test_quantized_nan_is_left_open_and_infinity_is_not() -> None:
    def quantized(x: torch.Tensor) -> torch.Tensor:
        quantize = torch.ops.quantized_decomposed.quantize_per_tensor.default
        return quantize(x, 0.1, 3, -128, 127, torch.int8).to(torch.int32)

    values = torch.tensor([1.0, NAN, 1e30, -math.inf])
    graph = torch.fx.symbolic_trace(quantized)  # as in programs, in which it is one operator
    assert (_rounding(lambda kind: [[kind(graph).run(values)]], 2) > 0).tolist() == [0, 1, 0, 0]


def test_products_of_what_c_leaves_open_are_explained_by_the_ends_of_the_range() -> None:
    def products(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.int8).to(torch.int32) * torch.tensor([3, 100])

    run = traced(products, torch.tensor([NAN, NAN]))
    samples = len(rounding_of(run))
    assert (TIMES_ROUNDING * _rounding(run, samples) >= 127 * torch.tensor([3, 100])).all()


def test_vectors_may_have_other_signs_and_what_does_not_depend_on_them_may_not() -> None:
    def compute(a: torch.Tensor) -> list[torch.Tensor]:
        values, vectors = torch.ops.aten._linalg_eigh(a + a.mT)
        u, s, vh = torch.ops.aten._linalg_svd(a)
        return [values, vectors, u, s, vh, u * s @ vh]

    matrix = torch.randn(5, 5, generator=torch.Generator().manual_seed(0))
    graph = make_fx(compute)(matrix)
    samples = rounding_of(lambda kind: [kind(graph).run(matrix)])
    expected = compute(matrix)
    signs = torch.tensor([1, -1, -1, 1, 1])
    values, vectors, u, s, vh, product = expected
    other = [values, vectors * signs, u * signs, s, vh * signs[:, None], product]
    assert all(result.is_equal for result in compare([other], [expected], samples))
    for i in (0, 3, 5):
        wrong = list(other)
        wrong[i] = -wrong[i]
        assert [r.is_equal for r in compare([wrong], [expected], samples)][i] is False


def _with_excluded_nan(form: str) -> tuple[Any, list[torch.Tensor], torch.Tensor]:
    """A causal attention whose last value is NaN: a graph, its inputs, and what there is without
    the values that are masked."""
    aten = torch.ops.aten

    def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(6, 6, dtype=torch.bool).tril()
        return aten.scaled_dot_product_attention(q, k, v, mask if form == "mask" else None, 0.0,
                                                 form == "causal")  # fmt: skip

    def flash(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)[0]

    def viewed(*given: torch.Tensor) -> torch.Tensor:
        """The result has the strides of the query, so that heads can be viewed as one dimension."""
        y = flash(*(x.transpose(1, 2).contiguous().transpose(1, 2) for x in given))
        return y.transpose(1, 2).view(1, 6, 8).view(1, 6, 2, 4).transpose(1, 2)

    torch.manual_seed(0)
    inputs = [torch.randn(1, 2, 6, 4) for _ in range(3)]
    without = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=True)
    without[:, :, -1] = NAN
    inputs[2][:, :, -1] = NAN
    function = {"flash": flash, "viewed": viewed}.get(form, plain)
    return make_fx(function)(*inputs), inputs, without


@pytest.mark.parametrize("form", ["mask", "causal", "flash", "viewed"])
def test_attention_may_skip_what_is_masked(form: str) -> None:
    graph, inputs, skipped = _with_excluded_nan(form)
    expected = graph(*inputs)
    weighted = torch.full_like(expected, NAN)  # 0 * NaN
    visible = skipped.clone()
    visible[:, :, -1] = 0
    for found, passes in ((skipped, True), (weighted, True), (visible, False)):
        samples = rounding_of(lambda kind: [[kind(graph).run(*inputs)]])
        (result,) = compare([[found]], [[expected]], samples)
        assert result.is_equal == passes, f"{form}: {result}"
    inputs[2][:, :, -1] = 1
    expected = graph(*inputs)
    wrong = expected.clone()
    wrong[0, 0, 0, 0] += 1e-2
    (result,) = compare(
        [[wrong]], [[expected]], rounding_of(lambda kind: [[kind(graph).run(*inputs)]])
    )
    assert not result.is_equal
