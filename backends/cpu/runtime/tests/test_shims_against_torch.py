"""Every operator shim of the CPU against torch's own operator: values, dtypes and strides.

Inputs have random values and awkward layouts. The seed is printed; PTERON_TEST_SEED repeats a run.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import random
from collections.abc import Iterator

import pytest
import torch

from backends.cpu.runtime.tests.shim_caller import (
    HandleArray,
    Handles,
    Optional,
    ShimError,
    ShimLibrary,
    dtype_number,
)

aten = torch.ops.aten
FLOATING = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


def _library_path() -> str:
    # Beside this package, as the runtime finds it.
    beside = pathlib.Path(__file__).parent.parent / "libcpu_backend.so"
    return os.environ.get("PTERON_CPU_BACKEND_LIBRARY", str(beside))


@pytest.fixture(scope="module")
def shims() -> ShimLibrary:
    return ShimLibrary(_library_path())


@pytest.fixture(autouse=True)
def seed() -> None:
    number = int(os.environ.get("PTERON_TEST_SEED", random.randrange(2**31)))
    print(f"PTERON_TEST_SEED={number}")
    random.seed(number)
    torch.manual_seed(number)


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random numbers, with repetitions where they are integers."""
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    if dtype.is_floating_point:
        return torch.randn(shape, dtype=torch.float64).to(dtype)
    if dtype.is_complex:
        return torch.randn(shape, dtype=torch.complex128).to(dtype)
    low = 0 if dtype == torch.uint8 else -7
    return torch.randint(low, 8, shape).to(dtype)


def layouts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The same contents row-major, with dimensions swapped in memory, with gaps, at an offset."""
    yield tensor.contiguous()
    if tensor.dim() >= 2:
        yield tensor.transpose(0, -1).contiguous().transpose(0, -1)
        wide = torch.zeros(*tensor.shape[:-1], tensor.shape[-1] * 2, dtype=tensor.dtype)
        wide[..., ::2] = tensor
        yield wide[..., ::2]
    if tensor.numel():
        padded = torch.zeros(tensor.numel() + 5, dtype=tensor.dtype)
        padded[5:] = tensor.flatten()
        yield padded[5:].view(tensor.shape)


def poison(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """Memory that a shim has to overwrite: NaN, or a number nothing computes."""
    return torch.full(shape, float("nan") if dtype.is_floating_point else 113, dtype=dtype)


def check(actual: torch.Tensor, expected: torch.Tensor, rtol: float | None = None) -> None:
    """Same dtype, sizes, values, and strides wherever a stride means something."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if expected.numel():
        for size, found, wanted in zip(
            expected.shape, actual.stride(), expected.stride(), strict=True
        ):
            assert size == 1 or found == wanted, (actual.stride(), expected.stride())
    tolerances = {}
    if rtol is not None:
        tolerances = {"rtol": rtol, "atol": rtol}
    torch.testing.assert_close(actual, expected, equal_nan=True, **tolerances)


TOLERANCE = {torch.float16: 5e-3, torch.bfloat16: 3e-2, torch.float32: 2e-5, torch.float64: 1e-12}


# --- matrix products -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATING + INTEGERS, ids=str)
@pytest.mark.parametrize(
    "m,k,n", [(1, 1, 1), (3, 0, 2), (1, 8, 8), (5, 7, 3), (33, 65, 129), (1, 300, 70)]
)
def test_mm_out(shims: ShimLibrary, dtype: torch.dtype, m: int, k: int, n: int) -> None:
    for a in layouts(values(m, k, dtype=dtype)):
        for b in layouts(values(k, n, dtype=dtype)):
            for out in layouts(poison(m, n, dtype=dtype)):
                shims.call("cpu_mm_out", out, a, b)
                expected = a.double() @ b.double() if dtype.is_floating_point else a @ b
                scale = max(k, 1) ** 0.5
                check(out.contiguous(), expected.to(dtype), TOLERANCE.get(dtype, 0) * scale)


def test_mm_out_large_uses_threads(shims: ShimLibrary) -> None:
    a, b = values(300, 200), values(200, 500)
    out = poison(300, 500, dtype=torch.float32)
    shims.call("cpu_mm_out", out, a, b)
    check(out, a @ b, 1e-4)


@pytest.mark.parametrize("dtype", FLOATING + [torch.int64], ids=str)
@pytest.mark.parametrize("beta,alpha", [(1.0, 1.0), (0.0, 1.0), (2.0, -3.0)])
def test_addmm_out(shims: ShimLibrary, dtype: torch.dtype, beta: float, alpha: float) -> None:
    a, b = values(9, 40, dtype=dtype), values(40, 21, dtype=dtype)
    for self_shape in [(21,), (1, 21), (9, 21), (9, 1), ()]:
        self = values(*self_shape, dtype=dtype)
        if beta == 0 and dtype.is_floating_point:
            self.fill_(float("nan"))  # must not be read
        for out in layouts(poison(9, 21, dtype=dtype)):
            shims.call("cpu_addmm_out", out, self, a, b.t().contiguous().t(), beta, alpha)
            wide = torch.float64 if dtype.is_floating_point else torch.int64
            base = 0 if beta == 0 else beta * self.to(wide)
            expected = (base + alpha * (a.to(wide) @ b.to(wide))).to(dtype)
            check(
                out.contiguous(), expected.expand(9, 21).contiguous(), TOLERANCE.get(dtype, 0) * 20
            )


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_bmm_out(shims: ShimLibrary, dtype: torch.dtype) -> None:
    for batch, m, k, n in [
        (1, 3, 4, 5),
        (4, 17, 33, 9),
        (3, 1, 64, 100),
        (2, 130, 140, 150),
        (0, 2, 3, 4),
    ]:
        a, b = values(batch, m, k, dtype=dtype), values(batch, k, n, dtype=dtype)
        for left in layouts(a):
            for right in (b, b.transpose(1, 2).contiguous().transpose(1, 2)):
                out = poison(batch, m, n, dtype=dtype)
                shims.call("cpu_bmm_out", out, left, right)
                check(out, (a.double() @ b.double()).to(dtype), TOLERANCE[dtype] * 20)


def test_bmm_out_of_an_expanded_batch(shims: ShimLibrary) -> None:
    a, b = values(1, 3, 4).expand(5, 3, 4), values(5, 4, 6)
    out = poison(5, 3, 6, dtype=torch.float32)
    shims.call("cpu_bmm_out", out, a, b)
    check(out, a @ b, 1e-5)


def test_baddbmm_out(shims: ShimLibrary) -> None:
    a, b = values(4, 17, 33), values(4, 33, 9)
    for self in (values(4, 17, 9), values(9), values(4, 1, 9)):
        out = poison(4, 17, 9, dtype=torch.float32)
        shims.call("cpu_baddbmm_out", out, self, a, b, 0.5, 2.0)
        check(out, torch.baddbmm(self.expand(4, 17, 9), a, b, beta=0.5, alpha=2.0), 1e-4)


def test_int_mm_out(shims: ShimLibrary) -> None:
    a, b = (torch.randint(-128, 128, s).to(torch.int8) for s in ((33, 70), (70, 90)))
    for right in layouts(b):
        out = poison(33, 90, dtype=torch.int32)
        shims.call("cpu__int_mm_out", out, a, right)
        check(out, a.int() @ b.int())


def test_products_refuse_what_does_not_fit(shims: ShimLibrary) -> None:
    out = poison(3, 5, dtype=torch.float32)
    for a, b in [
        (values(3, 4), values(5, 5)),
        (values(3, 4), values(4, 6)),
        (values(3, 4), values(4, 5, dtype=torch.float64)),
        (values(3, 4), values(4)),
    ]:
        with pytest.raises(ShimError):
            shims.call("cpu_mm_out", out, a, b)
    assert out.isnan().all()


# --- convolution ---------------------------------------------------------------------------------

CONVOLUTIONS = [
    # input, weight, stride, padding, dilation, transposed, output padding, groups
    ((2, 3, 17), (5, 3, 4), [2], [1], [1], False, [0], 1),
    ((1, 4, 9), (6, 2, 3), [1], [2], [2], False, [0], 2),
    ((2, 3, 15, 14), (8, 3, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    ((1, 16, 20, 20), (32, 16, 3, 3), [2, 2], [1, 1], [1, 1], False, [0, 0], 1),
    ((2, 8, 9, 11), (24, 8, 1, 1), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    ((1, 8, 9, 11), (24, 8, 1, 1), [2, 2], [0, 0], [1, 1], False, [0, 0], 1),
    ((2, 12, 13, 13), (12, 1, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 12),
    ((2, 12, 14, 13), (24, 1, 5, 5), [2, 2], [2, 2], [1, 1], False, [0, 0], 12),
    ((1, 6, 30, 31), (9, 2, 3, 2), [3, 1], [0, 4], [2, 3], False, [0, 0], 3),
    ((1, 3, 64, 64), (16, 3, 7, 7), [2, 2], [3, 3], [1, 1], False, [0, 0], 1),
    ((1, 1, 1, 1), (4, 1, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    ((1, 2, 6, 7, 8), (4, 2, 3, 2, 3), [1, 2, 1], [1, 0, 2], [1, 1, 2], False, [0, 0, 0], 1),
    ((2, 4, 5, 6, 7), (4, 1, 3, 3, 3), [1, 1, 1], [1, 1, 1], [1, 1, 1], False, [0, 0, 0], 4),
    ((2, 3, 17), (3, 5, 4), [2], [1], [1], True, [1], 1),
    ((2, 6, 7, 8), (6, 4, 3, 3), [2, 2], [1, 1], [1, 1], True, [1, 1], 1),
    ((1, 6, 7, 8), (6, 3, 4, 3), [3, 1], [0, 2], [1, 2], True, [2, 0], 2),
    ((1, 8, 5, 5), (8, 1, 2, 2), [2, 2], [0, 0], [1, 1], True, [0, 0], 8),
    ((1, 4, 3, 4, 5), (4, 2, 2, 3, 2), [2, 1, 2], [0, 1, 0], [1, 1, 1], True, [1, 0, 0], 1),
]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize(
    "case", CONVOLUTIONS, ids=lambda c: f"{c[0]}-{c[1]}-{c[2:]}".replace(" ", "")
)
def test_convolution(shims: ShimLibrary, dtype: torch.dtype, case: tuple) -> None:
    shape, weight_shape, stride, padding, dilation, transposed, output_padding, groups = case
    x = values(*shape, dtype=dtype)
    weight = values(*weight_shape, dtype=dtype) / 4
    channels = weight_shape[1] * groups if transposed else weight_shape[0]
    for bias in (None, values(channels, dtype=dtype)):
        wide = [t if t is None else t.double() for t in (x, weight, bias)]
        expected = aten.convolution(
            *wide, stride, padding, dilation, transposed, output_padding, groups
        ).to(dtype)
        inputs = list(layouts(x))
        if x.dim() == 4:
            inputs.append(x.to(memory_format=torch.channels_last))
        for layout in inputs:
            actual = shims.call(
                "cpu_convolution", layout, weight, Optional(bias), stride, padding, dilation,
                transposed, output_padding, groups, results=1,
            )  # fmt: skip
            check(actual.contiguous(), expected.contiguous(), TOLERANCE[dtype] * 10)


def test_convolution_is_channels_last_where_torch_is(shims: ShimLibrary) -> None:
    torch.backends.mkldnn.set_flags(False)
    x, weight = values(2, 3, 8, 9), values(4, 3, 3, 3)
    last = torch.channels_last
    pairs = [
        (x, weight),
        (x.to(memory_format=last), weight),
        (x, weight.to(memory_format=last)),
        (x.permute(0, 1, 3, 2).contiguous().permute(0, 1, 3, 2), weight),
        (values(2, 1, 8, 9), values(4, 1, 3, 3)),
        (values(2, 3, 1, 1).to(memory_format=last), values(4, 3, 1, 1)),
    ]
    for a, b in pairs:
        padding = [b.shape[2] // 2] * 2
        arguments = ([1, 1], padding, [1, 1], False, [0, 0], 1)
        actual = shims.call("cpu_convolution", a, b, None, *arguments, results=1)
        check(actual, aten.convolution(a, b, None, *arguments), 1e-4)


def test_convolution_refuses_what_does_not_fit(shims: ShimLibrary) -> None:
    good = ([1, 1], [0, 0], [1, 1], False, [0, 0])
    x = values(1, 4, 8, 8)
    for weight, bias, arguments, groups in [
        (values(4, 3, 3, 3), None, good, 1),
        (values(4, 4, 3, 3), values(5), good, 1),
        (values(4, 4, 9, 9), None, good, 1),
        (values(4, 4, 3, 3), None, good, 3),
        (values(4, 4, 3, 3), None, ([0, 1], [0, 0], [1, 1], False, [0, 0]), 1),
        (values(4, 4, 3, 3), None, ([1, 1], [-1, 0], [1, 1], False, [0, 0]), 1),
        (values(4, 4, 3), None, good, 1),
        (values(4, 4, 3, 3, dtype=torch.float64), None, good, 1),
    ]:
        with pytest.raises(ShimError):
            shims.call("cpu_convolution", x, weight, Optional(bias), *arguments, groups, results=1)


# --- pooling -------------------------------------------------------------------------------------


def images(dims: int, dtype: torch.dtype = torch.float32) -> Iterator[torch.Tensor]:
    shape = (2, 3, 7, 9, 8)[: dims + 2]
    x = values(*shape, dtype=dtype)
    yield x
    yield x[0].contiguous()
    yield x.to(memory_format=torch.channels_last if dims == 2 else torch.channels_last_3d)
    yield x.transpose(-1, -2).contiguous().transpose(-1, -2)


@pytest.mark.parametrize("dims,output", [(2, [3, 4]), (2, [1, 1]), (2, [10, 2]), (3, [2, 3, 4])])
def test_adaptive_avg_pool(shims: ShimLibrary, dims: int, output: list[int]) -> None:
    name = f"_adaptive_avg_pool{dims}d"
    for x in images(dims):
        check(shims.call("cpu_" + name, x, output, results=1), getattr(aten, name)(x, output), 1e-5)


@pytest.mark.parametrize("dims,output", [(2, [3, 4]), (2, [10, 2]), (3, [2, 3, 4])])
def test_adaptive_max_pool(shims: ShimLibrary, dims: int, output: list[int]) -> None:
    name = f"adaptive_max_pool{dims}d"
    for x in images(dims):
        x[..., 1, 2] = float("nan")
        for actual, expected in zip(
            shims.call("cpu_" + name, x, output, results=2),
            getattr(aten, name)(x, output),
            strict=True,
        ):
            check(actual, expected)


POOLS = [
    # kernel, stride, padding, ceil mode
    ([2], [], [0], False),
    ([3], [2], [1], False),
    ([3], [2], [1], True),
    ([4], [3], [2], True),
    ([5], [1], [0], False),
]


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("kernel,stride,padding,ceil", POOLS)
def test_avg_pool(
    shims: ShimLibrary, dims: int, kernel: list, stride: list, padding: list, ceil: bool
) -> None:
    name = f"avg_pool{dims}d"
    for x in images(dims):
        for count_pad in (True, False):
            for divisor in (None, 5):
                arguments = (kernel, stride, padding, ceil, count_pad)
                actual = shims.call("cpu_" + name, x, *arguments, Optional(divisor), results=1)
                check(actual, getattr(aten, name)(x, *arguments, divisor), 1e-5)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("dilation", [[1], [2]])
@pytest.mark.parametrize("kernel,stride,padding,ceil", POOLS[:3])
def test_max_pool_with_indices(
    shims: ShimLibrary,
    dims: int,
    dilation: list,
    kernel: list,
    stride: list,
    padding: list,
    ceil: bool,
) -> None:
    name = f"max_pool{dims}d_with_indices"
    for x in images(dims):
        if dims == 3 and x.dim() == 4:
            continue  # torch answers in two layouts there, real and traced
        x = x.clone()
        x[..., 1, 2] = float("nan")
        arguments = (kernel, stride, padding, dilation, ceil)
        actual = shims.call("cpu_" + name, x, *arguments, results=2)
        for found, wanted in zip(actual, getattr(aten, name)(x, *arguments), strict=True):
            check(found, wanted)


# --- order ---------------------------------------------------------------------------------------


def numbers_with_ties(dtype: torch.dtype) -> torch.Tensor:
    x = values(6, 5, 9, dtype=dtype)
    if dtype.is_floating_point:
        x = (x * 2).round() / 2
        x[2, 3, 4] = float("nan")
        x[0, 0, 0] = float("inf")
    return x


@pytest.mark.parametrize("dtype", FLOATING + INTEGERS + [torch.bool], ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_stable(shims: ShimLibrary, dtype: torch.dtype, descending: bool) -> None:
    for x in layouts(numbers_with_ties(dtype)):
        for dim in (0, 1, -1):
            expected = aten.sort.stable(x, stable=True, dim=dim, descending=descending)
            stable = Optional(True, is_int32=True)
            actual = shims.call("cpu_sort_stable", x, stable, dim, descending, results=2)
            for found, wanted in zip(actual, expected, strict=True):
                check(found, wanted)
            check(shims.call("cpu_sort", x, dim, descending, results=2)[0], expected[0])


def test_sort_of_a_single_number(shims: ShimLibrary) -> None:
    found, places = shims.call("cpu_sort", torch.tensor(3.0), 0, False, results=2)
    assert found.item() == 3 and places.item() == 0 and places.dim() == 0


@pytest.mark.parametrize("dtype", FLOATING + INTEGERS, ids=str)
@pytest.mark.parametrize("largest", [False, True])
def test_topk(shims: ShimLibrary, dtype: torch.dtype, largest: bool) -> None:
    for x in layouts(numbers_with_ties(dtype)):
        for k, dim in ((1, 0), (4, 2), (5, 1), (0, 1)):
            expected, _ = aten.topk(x, k, dim, largest, True)
            found, places = shims.call("cpu_topk", x, k, dim, largest, True, results=2)
            check(found, expected)
            check(x.gather(dim, places).contiguous(), expected)


def test_topk_refuses_too_many(shims: ShimLibrary) -> None:
    with pytest.raises(ShimError):
        shims.call("cpu_topk", values(3, 4), 5, 1, True, True, results=2)


@pytest.mark.parametrize("keepdim", [False, True])
def test_kthvalue(shims: ShimLibrary, keepdim: bool) -> None:
    for x in layouts(numbers_with_ties(torch.float32)):
        for k, dim in ((1, 0), (4, 1), (9, 2)):
            found, places = shims.call("cpu_kthvalue", x, k, dim, keepdim, results=2)
            expected = aten.kthvalue(x, k, dim, keepdim)[0]
            check(found, expected)
            index = places if keepdim else places.unsqueeze(dim)
            check(x.gather(dim, index).reshape(expected.shape), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("int32", [False, True])
def test_bucketize(shims: ShimLibrary, dtype: torch.dtype, right: bool, int32: bool) -> None:
    boundaries = values(9, dtype=dtype).sort().values
    for x in layouts(torch.cat([values(3, 7, dtype=dtype), boundaries[:7].expand(2, 7)])):
        actual = shims.call("cpu_bucketize_Tensor", x, boundaries, int32, right, results=1)
        check(actual, aten.bucketize.Tensor(x, boundaries, out_int32=int32, right=right))


@pytest.mark.parametrize("side", [None, "left", "right"])
def test_searchsorted(shims: ShimLibrary, side: str | None) -> None:
    unsorted = values(4, 9)
    sorter = unsorted.argsort()
    x = values(4, 6)
    x[1, 2] = float("nan")
    cases = [(unsorted.sort().values, None), (unsorted, sorter), (unsorted[0].sort().values, None)]
    for sequence, order in cases:
        actual = shims.call(
            "cpu_searchsorted_Tensor",
            sequence,
            x,
            False,
            False,
            Optional(side),
            Optional(order),
            results=1,
        )
        check(actual, aten.searchsorted.Tensor(sequence, x, side=side, sorter=order))


def test_histc(shims: ShimLibrary) -> None:
    x = values(200)
    for bins, low, high in ((10, -1.0, 1.0), (7, 0.0, 0.0), (1, -3.0, 3.0)):
        check(
            shims.call("cpu_histc", x, bins, low, high, results=1), aten.histc(x, bins, low, high)
        )


# --- scans ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATING + INTEGERS + [torch.bool], ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_cumulative(shims: ShimLibrary, dtype: torch.dtype, name: str) -> None:
    for x in layouts(values(4, 5, 6, dtype=dtype)):
        for dim in (0, 1, -1):
            for out in (None, torch.float32, torch.int64):
                number = Optional(None if out is None else dtype_number(out), is_int32=True)
                actual = shims.call("cpu_" + name, x, dim, number, results=1)
                tolerance = TOLERANCE.get(actual.dtype, 0) * 4
                check(actual, getattr(aten, name)(x, dim, dtype=out), tolerance)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("dtype", FLOATING + INTEGERS, ids=str)
def test_cumulative_extremes(shims: ShimLibrary, dtype: torch.dtype, name: str) -> None:
    for x in layouts(numbers_with_ties(dtype)):
        for dim in (0, 2):
            actual = shims.call("cpu_" + name, x, dim, results=2)
            for found, wanted in zip(actual, getattr(aten, name)(x, dim), strict=True):
                check(found, wanted)


def test_logcumsumexp(shims: ShimLibrary) -> None:
    x = values(4, 6) * 100
    x[0, 0] = -float("inf")
    x[1, 2] = float("inf")
    for dim in (0, 1):
        check(shims.call("cpu_logcumsumexp", x, dim, results=1), aten.logcumsumexp(x, dim), 1e-5)


# --- gather and scatter --------------------------------------------------------------------------


def index_cases() -> list[tuple[torch.Tensor | None, ...]]:
    i = torch.tensor([0, 2, -1, 1])
    j = torch.tensor([[1], [-2]])
    mask = torch.rand(4, 5) < 0.5
    return [
        (i,),
        (None, i),
        (None, None, i),
        (i, i),
        (j, i),
        (i, None, i),
        (None, i.int(), i),
        (mask,),
        (torch.rand(4) < 0.5, None, i[:1]),
        (torch.rand(4, 5, 6) < 0.2,),
        (torch.zeros(4, dtype=torch.bool),),
        (torch.zeros(0, dtype=torch.int64),),
    ]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.int8, torch.complex128, torch.bool], ids=str
)
def test_index(shims: ShimLibrary, dtype: torch.dtype) -> None:
    for indices in index_cases():
        for x in layouts(values(4, 5, 6, dtype=dtype)):
            actual = shims.call("cpu_index_Tensor", x, Handles(indices), results=1)
            check(actual, aten.index.Tensor(x, indices))


def test_index_out_of_bounds(shims: ShimLibrary) -> None:
    for bad in (
        torch.tensor([4]),
        torch.tensor([-5]),
        torch.ones(3, dtype=torch.bool),
        torch.ones(2),
    ):
        with pytest.raises(ShimError):
            shims.call("cpu_index_Tensor", values(4, 5), Handles([bad]), results=1)


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(shims: ShimLibrary, accumulate: bool) -> None:
    for indices in index_cases():
        for x in layouts(values(4, 5, 6)):
            given = torch.tensor(2.5)
            expected = aten.index_put(x, indices, given, accumulate)
            actual = shims.call("cpu_index_put", x, Handles(indices), given, accumulate, results=1)
            check(actual, expected)
    x, places = values(4, 3), (torch.tensor([1, 1, 2]),)
    given = values(3, 3)
    out = poison(4, 3, dtype=torch.float32)
    indices = HandleArray(places)
    shims.call(
        "index_put_out", out, x, indices, ctypes.c_uint32(1), given, ctypes.c_bool(accumulate)
    )
    check(out, aten.index_put(x, places, given, accumulate), 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int64, torch.bfloat16], ids=str)
def test_nonzero(shims: ShimLibrary, dtype: torch.dtype) -> None:
    for shape in ((3, 4, 5), (7,), (), (0, 3)):
        for x in layouts((values(*shape) > 0).to(dtype)):
            check(shims.call("cpu_nonzero", x, results=1), aten.nonzero(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16, torch.complex64], ids=str)
def test_masked(shims: ShimLibrary, dtype: torch.dtype) -> None:
    for mask in (torch.rand(4, 5) < 0.5, torch.rand(5) < 0.5, torch.rand(3, 4, 5) < 0.5):
        for x in layouts(values(4, 5, dtype=dtype)):
            check(shims.call("cpu_masked_select", x, mask, results=1), aten.masked_select(x, mask))
            source = values(70, dtype=dtype)
            target = x.expand(mask.shape) if mask.dim() > 2 else x
            actual = shims.call("cpu_masked_scatter", target, mask, source, results=1)
            check(actual, aten.masked_scatter(target, mask, source).contiguous())


def test_masked_scatter_refuses_a_short_source(shims: ShimLibrary) -> None:
    with pytest.raises(ShimError):
        shims.call(
            "cpu_masked_scatter", values(4), torch.ones(4, dtype=torch.bool), values(3), results=1
        )


def scatter_inputs(
    dtype: torch.dtype,
) -> Iterator[tuple[torch.Tensor, int, torch.Tensor, torch.Tensor]]:
    for dim in (0, 1, -1):
        x = values(4, 5, 6, dtype=dtype)
        index = torch.randint(0, x.shape[dim], (3, 4, 5))
        for source in layouts(values(3, 5, 6, dtype=dtype)):
            yield x, dim, index, source


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16], ids=str)
def test_scatter(shims: ShimLibrary, dtype: torch.dtype) -> None:
    for x, dim, _, _ in scatter_inputs(dtype):
        # Distinct places: which of several writers wins is nobody's business.
        d = dim % 3
        index = torch.rand(x.shape).argsort(d)[:3, :4, :5]
        source = values(*index.shape, dtype=dtype)
        for out in layouts(poison(*x.shape, dtype=dtype)):
            shims.call("cpu_scatter_src_out", out, x, dim, index, source)
            check(out.contiguous(), aten.scatter.src(x, dim, index, source))
            shims.call("cpu_scatter_value_out", out, x, dim, index, 3.0)
            check(out.contiguous(), aten.scatter.value(x, dim, index, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16], ids=str)
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [False, True])
def test_scatter_reduce(
    shims: ShimLibrary, dtype: torch.dtype, reduce: str, include_self: bool
) -> None:
    for x, dim, index, source in scatter_inputs(dtype):
        expected = aten.scatter_reduce.two(x, dim, index, source, reduce, include_self=include_self)
        out = poison(*x.shape, dtype=dtype)
        shims.call("cpu_scatter_reduce_two_out", out, x, dim, index, source, reduce, include_self)
        check(out, expected, TOLERANCE.get(dtype, 0) * 4)
        inplace = x.clone()
        with shims.borrowed(inplace) as self:
            shims.call(
                "cpu_scatter_reduce_two_out", self, self, dim, index, source, reduce, include_self
            )
        check(inplace, expected, TOLERANCE.get(dtype, 0) * 4)


def test_scatter_refuses_what_is_out_of_bounds(shims: ShimLibrary) -> None:
    x, out = values(3, 4), poison(3, 4, dtype=torch.float32)
    for index in (torch.tensor([[3]]), torch.tensor([[-1]]), torch.zeros(1, 5, dtype=torch.int64)):
        with pytest.raises(ShimError):
            shims.call("cpu_scatter_src_out", out, x, 0, index, values(1, 5))
    with pytest.raises(ShimError):
        shims.call(
            "cpu_scatter_reduce_two_out",
            out,
            x,
            0,
            torch.tensor([[0]]),
            values(1, 1),
            "median",
            True,
        )
    assert out.isnan().all()


def test_repeat_interleave(shims: ShimLibrary) -> None:
    for dtype in (torch.int64, torch.int32):
        repeats = torch.tensor([2, 0, 3, 1], dtype=dtype)
        for size in (None, 6):
            actual = shims.call("cpu_repeat_interleave_Tensor", repeats, Optional(size), results=1)
            check(actual, aten.repeat_interleave.Tensor(repeats))
    with pytest.raises(ShimError):
        shims.call("cpu_repeat_interleave_Tensor", torch.tensor([1, -1]), None, results=1)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("name", ["_embedding_bag_forward_only", "_embedding_bag"])
@pytest.mark.parametrize("index_dtype", [torch.int64, torch.int32], ids=str)
def test_embedding_bag(shims: ShimLibrary, mode: int, name: str, index_dtype: torch.dtype) -> None:
    weight = values(10, 7)
    indices = torch.randint(0, 10, (12,)).to(index_dtype)
    for offsets, last in (([0, 3, 3, 8], False), ([0, 5, 12], True)):
        bags = torch.tensor(offsets, dtype=index_dtype)
        for padding in (-1, int(indices[0])):
            for samples in (None, values(12)) if mode == 0 else (None,):
                for table in layouts(weight):
                    expected = getattr(aten, name)(
                        table, indices, bags, False, mode, False, samples, last, padding
                    )
                    actual = shims.call(
                        "cpu_" + name, table, indices, bags, False, mode, False, Optional(samples),
                        last, padding, results=4,
                    )  # fmt: skip
                    check(actual[0], expected[0], 1e-5)


def test_embedding_bag_refuses_bad_indices(shims: ShimLibrary) -> None:
    weight, offsets = values(4, 3), torch.tensor([0])
    for indices, bags in [
        (torch.tensor([4]), offsets),
        (torch.tensor([-1]), offsets),
        (torch.tensor([1, 2]), torch.tensor([0, 3])),
        (torch.tensor([1, 2]), torch.tensor([0, 2, 1])),
    ]:
        with pytest.raises(ShimError):
            options = (False, 0, False, None, False, -1)
            name = "cpu__embedding_bag_forward_only"
            shims.call(name, weight, indices, bags, *options, results=4)


# --- random numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32], ids=str)
def test_randint(shims: ShimLibrary, dtype: torch.dtype) -> None:
    out = poison(4000, dtype=dtype)
    shims.call("cpu_randint_low_out", out, -3, 5, [4000])
    counts = torch.bincount((out + 3).long(), minlength=8)
    assert counts.numel() == 8
    assert counts.min() > 350 and counts.max() < 650
    again = out.clone()
    shims.call("cpu_randint_low_out", again, -3, 5, [4000])
    assert not torch.equal(out, again)
    whole = torch.zeros(50, dtype=torch.int64)
    shims.call("cpu_randint_low_out", whole, -(2**63), 2**63 - 1, [50])
    assert (whole < 0).any() and (whole > 0).any()
    with pytest.raises(ShimError):
        shims.call("cpu_randint_low_out", out, 5, 5, [4000])


def test_randperm(shims: ShimLibrary) -> None:
    def draw(n: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        number = Optional(None if dtype is None else dtype_number(dtype), is_int32=True)
        device = ctypes.c_int32(-1)
        return shims.call("cpu_randperm", n, number, None, None, device, None, results=1)

    check(draw(100).sort().values, torch.arange(100))
    check(draw(100, torch.int32).sort().values, torch.arange(100, dtype=torch.int32))
    assert not torch.equal(draw(100), draw(100))
    assert draw(0).numel() == 0


# --- complex numbers and views -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_views(shims: ShimLibrary, dtype: torch.dtype) -> None:
    for x in layouts(values(4, 5, dtype=dtype)):
        check(shims.call("cpu_view_as_real", x, results=1), torch.view_as_real(x))
        pairs = torch.view_as_real(x)
        if pairs.storage_offset() % 2 == 0:
            check(shims.call("cpu_view_as_complex", pairs, results=1), torch.view_as_complex(pairs))
    with pytest.raises(ShimError):
        shims.call("cpu_view_as_complex", values(4, 3), results=1)
    with pytest.raises(ShimError):
        shims.call("cpu_view_as_real", values(4, 3), results=1)


def test_view_dtype(shims: ShimLibrary) -> None:
    for x in (values(4, 6), values(4, 12)[:, :6], values(3, 4, 8)):
        for dtype in (torch.int32, torch.int16, torch.uint8, torch.float64, torch.complex64):
            number = ctypes.c_int32(dtype_number(dtype))
            check(shims.call("cpu_view_dtype", x, number, results=1), aten.view.dtype(x, dtype))
    with pytest.raises(ShimError):
        shims.call("cpu_view_dtype", values(4, 5), ctypes.c_int32(7), results=1)


def test_permute(shims: ShimLibrary) -> None:
    for x in layouts(values(3, 4, 5)):
        for dims in ([2, 0, 1], [0, 1, 2], [-1, -2, -3]):
            check(shims.call("cpu_permute", x, dims, results=1), x.permute(dims))
    for dims in ([0, 1], [0, 0, 1], [0, 1, 3]):
        with pytest.raises(ShimError):
            shims.call("cpu_permute", values(3, 4, 5), dims, results=1)


def test_fill(shims: ShimLibrary) -> None:
    for dtype in FLOATING + INTEGERS + [torch.bool, torch.complex64]:
        for x in layouts(values(3, 4, dtype=dtype)):
            shims.call("cpu_fill__Scalar", x, 2.5)
            check(x.contiguous(), torch.full(x.shape, 2.5, dtype=dtype))


BINARY_DTYPES = [
    (torch.complex64, torch.complex64),
    (torch.complex64, torch.float32),
    (torch.float64, torch.complex64),
    (torch.complex128, torch.int64),
    (torch.float32, torch.float32),
    (torch.float16, torch.float32),
    (torch.int32, torch.int64),
]


@pytest.mark.parametrize("a_dtype,b_dtype", BINARY_DTYPES, ids=str)
def test_mul_and_add(shims: ShimLibrary, a_dtype: torch.dtype, b_dtype: torch.dtype) -> None:
    for b_shape in ((4, 5, 6), (6,), (4, 1, 6), ()):
        b = values(*b_shape, dtype=b_dtype)
        for a in layouts(values(4, 5, 6, dtype=a_dtype)):
            check(shims.call("cpu_mul_Tensor", a, b, results=1), aten.mul.Tensor(a, b), 1e-3)
            check(
                shims.call("cpu_add_Tensor", a, b, 2.0, results=1),
                aten.add.Tensor(a, b, alpha=2),
                1e-3,
            )


@pytest.mark.parametrize(
    "dtype",
    [torch.complex64, torch.complex128, torch.float32, torch.int64, torch.bfloat16],
    ids=str,
)
def test_abs(shims: ShimLibrary, dtype: torch.dtype) -> None:
    for x in layouts(values(4, 5, 6, dtype=dtype)):
        check(shims.call("cpu_abs", x, results=1), aten.abs(x), 1e-6)


@pytest.mark.parametrize("length", [1, 2, 7, 12, 31, 37, 64, 100, 210, 2 * 101, 1024])
@pytest.mark.parametrize("normalization", [0, 1, 2])
def test_fft_of_one_dimension(shims: ShimLibrary, length: int, normalization: int) -> None:
    x = values(3, length, dtype=torch.float64)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-4)):
        real = x.to(dtype)
        for onesided in (True, False):
            actual = shims.call("cpu__fft_r2c", real, [1], normalization, onesided, results=1)
            check(actual, aten._fft_r2c(real, [1], normalization, onesided), tolerance)
        number = torch.complex(real, real.flip(0))
        for forward in (True, False):
            actual = shims.call("cpu__fft_c2c", number, [1], normalization, forward, results=1)
            check(actual, aten._fft_c2c(number, [1], normalization, forward), tolerance)


def test_fft_of_several_dimensions(shims: ShimLibrary) -> None:
    for x in layouts(values(4, 5, 6)):
        for dims in ([0], [2], [0, 1], [1, 2], [0, 1, 2], [2, 0]):
            actual = shims.call("cpu__fft_r2c", x, dims, 0, True, results=1)
            check(actual, aten._fft_r2c(x, dims, 0, True), 1e-4)
            z = torch.complex(x, x)
            check(
                shims.call("cpu__fft_c2c", z, dims, 1, True, results=1),
                aten._fft_c2c(z, dims, 1, True),
                1e-4,
            )


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, float("inf")])
def test_cdist(shims: ShimLibrary, p: float) -> None:
    for a, b in [
        (values(5, 3), values(6, 3)),
        (values(2, 5, 3), values(2, 6, 3)),
        (values(2, 1, 5, 3), values(4, 6, 3)),
        (values(0, 3), values(6, 3)),
    ]:
        expected = aten._cdist_forward(a, b, p, 2)
        check(shims.call("cpu__cdist_forward", a, b, p, None, results=1), expected, 1e-5)
