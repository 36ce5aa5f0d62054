"""Matmuls."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch

from pteron.backends.aoti.ops.tests.case import *

_SIZES = ((1, 1, 1), (3, 0, 2), (1, 64, 3), (5, 7, 3), (17, 3, 4))
_ADDENDS = ((2,), (1, 2), (3, 2), (3, 1), (1,), ())


def poison(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A result that nobody wrote yet."""
    return torch.full(shape, float("nan") if dtype.is_floating_point else 113, dtype=dtype)


def large(*sizes: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Formula:
    """Integers, or numbers of many bits: TF32 would show."""
    scale = 1e-4 if dtype.is_floating_point else 1
    m = 100003 if dtype.is_floating_point else 251
    return Formula(*sizes, of=(7919 + seed, 7, m, -(m // 2), scale), dtype=dtype)


def large_poison(*sizes: int, dtype: torch.dtype = torch.float32) -> Formula:
    return Formula(*sizes, of=(0, 0, 1, 113, 1), dtype=dtype)


def columns(tensor: torch.Tensor) -> torch.Tensor:
    """With contiguous columns, as transposed weights have."""
    return tensor.mT.contiguous().mT


def pairs(
    a: torch.Tensor, b: torch.Tensor, out: torch.Tensor
) -> Iterator[tuple[str, str, tuple[torch.Tensor, ...]]]:
    """Two operands in all layouts, of integers in the same, and results in each in turn."""
    outs = list(layouts(out))
    lefts, rights = enumerate(layouts(a)), enumerate(layouts(b))
    for (i, (left, x)), (j, (right, y)) in itertools.product(lefts, rights):
        if i == j or a.is_floating_point():
            written, result = outs[(i + 2 * j) % len(outs)]
            yield f"{left}_{right}", written, (result, x, y)


def cases() -> Iterator[Json]:
    yield from _mm()
    yield from _added()
    yield from _batches()
    yield from _widened()
    yield from _int8_weights()
    yield from _float8()


def _mm() -> Iterator[Json]:
    for dtype in REAL:
        for m, k, n in _SIZES:
            a, b = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype, seed=1)
            name = f"{short(dtype)}/{m}x{k}x{n}"
            out = poison(m, n, dtype=dtype)
            yield case(name, "mm_out", out, a, columns(b), wide=True)
    for dtype in (torch.bfloat16, torch.int32):
        a, b, c = numbers(3, 4, dtype=dtype), numbers(4, 5, dtype=dtype), poison(3, 5, dtype=dtype)
        for name, written, tensors in pairs(a, b, c):
            yield case(f"{short(dtype)}/{name}_{written}", "mm_out", *tensors, wide=True)
    x = numbers(1, 6).expand(4, 6)
    yield case("repeated", "mm_out", poison(4, 8), x, numbers(6, 1).expand(6, 8), wide=True)
    yield case("empty", "mm_out", poison(0, 4), numbers(0, 8), numbers(8, 4))
    for dtype in (torch.float32, torch.int32):
        operands = large(150, 200, dtype=dtype), large(200, 250, dtype=dtype, seed=1)
        written_to = large_poison(150, 250, dtype=dtype)
        yield case(f"{short(dtype)}/large", "mm_out", written_to, *operands, wide=True)

    a, b, out = numbers(2, 3), numbers(3, 4), poison(2, 4)
    for name, arguments in {"out": (None, a, b), "self": (out, None, b)}.items():
        yield error(name, "mm_out", *arguments, parts=[f"{name} is a null handle"])
    yield error("mat2", "mm_out", out, a, None, parts=["mat2 is a null handle"])
    wanted = "expected [m, k] @ [k, n] -> [m, n]"
    yield error("rank", "mm_out", out, a[None], b, parts=["float32[1, 2, 3] @", wanted])
    yield error("depth", "mm_out", out, a, numbers(5, 4), parts=["@ float32[5, 4]", wanted])
    yield error("rows", "mm_out", poison(3, 4), a, b, parts=["-> float32[3, 4]", wanted])
    yield error("columns", "mm_out", poison(2, 5), a, b, parts=["-> float32[2, 5]", wanted])
    for name, arguments in {"left": (out, a.half(), b), "right": (out, a, b.double())}.items():
        wanted = "expected float32 @ float32 -> float32"
        yield error(f"dtype_{name}", "mm_out", *arguments, parts=["found float", wanted])
    x = numbers(2, 2, dtype=torch.complex64)
    yield error(
        "complex", "mm_out", x.clone(), x, x.clone(), parts=["no kernel", "complex64[2, 2]"]
    )
    out = poison(1, 4).expand(2, 4)
    yield error("overlapping", "mm_out", out, a, b, parts=["expected a result that repeats no"])


def _added() -> Iterator[Json]:
    for dtype in (*FLOATING, torch.int64, torch.int8):
        a, b = numbers(3, 5, dtype=dtype), columns(numbers(5, 2, dtype=dtype))
        for beta, alpha in ((1.0, 1.0), (2.0, -3.0)):
            for sizes in _ADDENDS if dtype in (torch.float32, torch.int64) else _ADDENDS[:3]:
                name = f"{short(dtype)}/{'x'.join(map(str, sizes))}/{beta}"
                x, out = numbers(*sizes, dtype=dtype), poison(3, 2, dtype=dtype)
                yield case(name, "addmm_out", out, x, a, b, beta, alpha, wide=True)
    a, b = numbers(3, 5), numbers(5, 2)
    for layout, x in layouts(numbers(3, 2, seed=2)):
        for written, out in layouts(poison(3, 2)):
            yield case(f"{layout}/{written}", "addmm_out", out, x, a, b, 0.5, 2.0, wide=True)
    for written, out in layouts(poison(3, 2)):
        bias = numbers(2).expand(3, 2)
        yield case(f"bias/{written}", "addmm_out", out, bias, a, b, 1.0, 1.0, wide=True)
        yield case(f"nan/{written}", "addmm_out", out, poison(2), a, b, 0.0, 1.0, wide=True)
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        out, x, y = (numbers(*sizes, dtype=dtype) for sizes in ((3, 2), (3, 5), (5, 2)))
        yield case(f"{short(dtype)}/in_place", "addmm_out", out, out, x, y, 1.0, 1.0, wide=True)
    out, x, y = poison(3, 4), numbers(3, 0), numbers(0, 4)
    yield case("no_products", "addmm_out", out, numbers(4), x, y, 2.0, 1.0, wide=True)
    out = poison(3, 2)
    for name, x in {"columns": numbers(3), "rank": numbers(1, 3, 2)}.items():
        parts = [f"{list(x.shape)} + float32[3, 5]", "expected an addend that broadcasts"]
        yield error(name, "addmm_out", out, x, a, b, 1.0, 1.0, parts=parts)
    parts = ["found float16[2] + float32[3, 5]", "expected float32 @ float32 -> float32"]
    yield error("dtype", "addmm_out", out, numbers(2).half(), a, b, 1.0, 1.0, parts=parts)
    yield error("null", "addmm_out", out, None, a, b, 1.0, 1.0, parts=["self is a null handle"])


def _batches() -> Iterator[Json]:
    for dtype in (*FLOATING, torch.int64):
        for batch, m, k, n in ((1, 3, 4, 5), (2, 1, 64, 2), (2, 3, 0, 2), (0, 2, 3, 4)):
            a, b = numbers(batch, m, k, dtype=dtype), numbers(batch, k, n, dtype=dtype, seed=1)
            name, out = f"{short(dtype)}/{batch}x{m}x{k}x{n}", poison(batch, m, n, dtype=dtype)
            yield case(name, "bmm_out", out, a, columns(b), wide=True)
    for dtype in (torch.float32, torch.int32):
        a, b = numbers(2, 3, 4, dtype=dtype), numbers(2, 4, 3, dtype=dtype, seed=1)
        out = poison(2, 3, 3, dtype=dtype)
        for name, _, tensors in pairs(a, b, out):
            yield case(f"{short(dtype)}/{name}", "bmm_out", *tensors, wide=True)
        y = numbers(1, 4, 3, dtype=dtype).expand(2, 4, 3)
        yield case(f"{short(dtype)}/shared", "bmm_out", out, a, y, wide=True)
    # Heads inside, as attention has them.
    a, b, out = (x.transpose(0, 1) for x in (numbers(4, 2, 3), numbers(3, 2, 5), poison(4, 2, 5)))
    yield case("heads", "bmm_out", out, a, b, wide=True)
    operands = large(3, 130, 140), large(3, 140, 50, seed=1)
    yield case("large", "bmm_out", large_poison(3, 130, 50), *operands, wide=True)
    a, b, out = numbers(2, 2, 3), numbers(2, 3, 4), poison(2, 2, 4)
    parts = ["expected [b, m, k] @ [b, k, n] -> [b, m, n]"]
    yield error("rank", "bmm_out", out, a[0], b, parts=["found float32[2, 3] @", *parts])
    yield error("batch", "bmm_out", out, a, b[:1], parts=["@ float32[1, 3, 4]", *parts])

    for dtype in (*FLOATING, torch.int32):
        a, b = numbers(2, 3, 4, dtype=dtype), numbers(2, 4, 3, dtype=dtype)
        for sizes in ((2, 3, 3), (3,), (2, 1, 3), (1, 3, 3), (2, 3, 1)):
            name = f"{short(dtype)}/{'x'.join(map(str, sizes))}"
            x, out = numbers(*sizes, dtype=dtype), poison(2, 3, 3, dtype=dtype)
            yield case(name, "baddbmm_out", out, x, a, b, 3.0, 2.0, wide=True)
    out, x, y = numbers(2, 5, 3), numbers(2, 5, 7), numbers(2, 7, 3)
    yield case("in_place", "baddbmm_out", out, out, x, y, 0.5, 1.0, wide=True)
    parts = ["float32[5] + float32[2, 5, 7]", "expected an addend that broadcasts"]
    yield error("self", "baddbmm_out", out, numbers(5), x, y, 1.0, 1.0, parts=parts)


def _widened() -> Iterator[Json]:
    def whole(*sizes: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(len(sizes))
        return torch.randint(-128, 128, sizes, generator=generator).to(torch.int8)

    for m, k, n in ((5, 7, 3), (3, 0, 2), (1, 16, 8), (18, 16, 8)):
        a, b, out = whole(m, k), whole(k, n), poison(m, n, dtype=torch.int32)
        yield case(f"{m}x{k}x{n}", "_int_mm_out", out, a, b)
        yield case(f"{m}x{k}x{n}/columns", "_int_mm_out", out, a, columns(b))

    # Only torch's CPU takes it, and only code that is made for one asks for it.
    a = numbers(18, 16, dtype=torch.uint8) * 36
    made = case("of_uint8", "_int_mm_out", poison(18, 8, dtype=torch.int32), a, whole(16, 8))
    yield made | {"host": True}

    # torch's own wants it row-major.
    def integers(_: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.int() @ y.int()

    for layout, out in layouts(poison(3, 8, dtype=torch.int32)):
        a, b = whole(3, 16), columns(whole(16, 8))
        yield case(f"into_{layout}", "_int_mm_out", out, a, b, reference=integers)
    left, right = large(300, 70, dtype=torch.int8), large(70, 200, dtype=torch.int8, seed=1)
    yield case("large", "_int_mm_out", large_poison(300, 200, dtype=torch.int32), left, right)
    a, b, out = whole(3, 4), whole(4, 5), poison(3, 5, dtype=torch.int32)
    yield error(
        "depth", "_int_mm_out", out, a, whole(3, 5), parts=["found int8[3, 4] @ int8[3, 5]"]
    )
    parts = ["found int8[3, 4] @ int32[4, 5]", "expected int8 @ int8 -> int32"]
    yield error("dtype", "_int_mm_out", out, a, b.int(), parts=parts)

    def wider(name: str, out: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> Json:
        def product(*_: object) -> torch.Tensor:
            return x.double() @ y.double()

        name, tolerance = f"{short(x.dtype)}/{name}", TOLERANCE[out.dtype]
        operands = (out, x, y, out.dtype)
        return case(name, "mm_dtype_out", *operands, reference=product, tolerance=tolerance)

    for dtype in (torch.float16, torch.bfloat16):
        a, b, out = numbers(3, 10, dtype=dtype), columns(numbers(10, 4, dtype=dtype)), poison(3, 4)
        for layout, written in layouts(out):
            yield wider(layout, written, a, b)
        yield wider("with_gaps", out, a[:, ::2], b[::2])
        yield wider("no_products", out, a[:, :0], b[:0])
        yield wider("same", out.to(dtype), a, b)
    a, b = numbers(2, 3), numbers(3, 4)
    parts = ["found float32[2, 3] and out_dtype float64"]
    yield error("wider", "mm_dtype_out", poison(2, 4), a, b, torch.float64, parts=parts)
    parts = ["expected float16 @ float16 -> float32"]
    operands = poison(2, 4), a.half(), b, torch.float32
    yield error("right", "mm_dtype_out", *operands, parts=parts)


def _int8_weights() -> Iterator[Json]:
    shim = "_weight_int8pack_mm"

    def product(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        return ((x.double() @ weight.double().t()) * scales.double()).to(x.dtype)

    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for m, k, n in ((1, 64, 2), (3, 33, 3), (9, 16, 3), (2, 0, 3), (0, 4, 3), (2, 4, 0)):
            x, scales = numbers(m, k, dtype=dtype) / 4, numbers(n, dtype=dtype) / 64
            weight = numbers(n, k, dtype=torch.int8) * 17
            name = f"{short(dtype)}/{m}x{k}x{n}"
            tolerance = TOLERANCE[dtype]
            yield case(name, shim, x, weight, scales, reference=product, tolerance=tolerance)
    weight, scales = numbers(3, 32, dtype=torch.int8) * 17, numbers(6)[::2]
    for (layout, x), (_, w) in zip(layouts(numbers(2, 32)), layouts(weight), strict=True):
        yield case(layout, shim, x, w, scales, reference=product, tolerance=4e-6)
        yield case(
            f"as_torch/{layout}", shim, x.contiguous(), weight, scales.contiguous(), tolerance=4e-6
        )
    many = (large(40, 300), large(90, 300, dtype=torch.int8), large(90, seed=1))
    yield case("large", shim, *many, reference=product, tolerance=4e-6)

    x, weight, scales = numbers(2, 4), numbers(3, 4, dtype=torch.int8), numbers(3)
    parts = ["found float32[2, 4], weight int8[3, 4], scales float32[4]", "[m, k], [n, k], [n]"]
    yield error("scales", shim, x, weight, numbers(4), parts=parts)
    yield error("depth", shim, numbers(2, 3), weight, scales, parts=["found float32[2, 3]"])
    parts = ["scales float16[3]", "all else of float32, float16 or bfloat16"]
    yield error("dtype", shim, x, weight, scales.half(), parts=parts)
    yield error("weight", shim, x, weight.int(), scales, parts=["weight int32[3, 4]"])
    yield error("double", shim, x.double(), weight, scales.double(), parts=["found float64[2, 4]"])


def _float8() -> Iterator[Json]:
    shim = "_scaled_mm_out"

    def float8(*sizes: int, seed: int = 0) -> torch.Tensor:
        return (numbers(*sizes, seed=seed) / 4).to(torch.float8_e4m3fn)

    def product(
        _: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor,
        scale_b: torch.Tensor, bias: torch.Tensor | None, *more: Any,
    ) -> torch.Tensor:  # fmt: skip
        result = (a.double() * scale_a.double()) @ (b.double() * scale_b.double())
        return result if bias is None else result + bias.double()

    one = torch.full((1,), 0.25)
    for m, k, n in ((1, 16, 16), (5, 32, 48), (64, 512, 80), (17, 128, 16), (0, 32, 16)):
        a, b = float8(m, k), columns(float8(k, n, seed=1))
        each = (numbers(m, 1, seed=2) / 8, numbers(1, n, seed=3) / 8)
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            bias = None if dtype == torch.float32 else numbers(n, dtype=dtype)
            for name, scales in (("one", (one, 2 * one)), ("each", each)):
                arguments = (poison(m, n, dtype=dtype), a, b, *scales, bias, None, dtype, False)
                # Products of float8 are exact, but tensor cores add them in some 14 bits.
                tolerance = max(TOLERANCE[dtype], 2e-4)
                yield case(
                    f"{short(dtype)}/{m}x{k}x{n}/{name}", shim, *arguments,
                    reference=product, tolerance=tolerance,
                )  # fmt: skip

    def wrong(name: str, *parts: str, **changes: Any) -> Json:
        named: dict[str, Any] = dict(
            out=poison(2, 16), self=float8(2, 32), mat2=columns(float8(32, 16)), scale_a=one,
            scale_b=one, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False,
        )  # fmt: skip
        return error(name, shim, *(named | changes).values(), parts=parts)

    yield wrong("float16", "expected float8_e4m3fn @", self=numbers(2, 32, dtype=torch.float16))
    yield wrong("sizes", "expected [m, k] @ [k, n]", self=float8(2, 16))
    yield wrong("int32", "found", "float16, bfloat16 or float32", out=poison(2, 16).int())
    yield wrong("out_dtype", "found", "-> bfloat16", out_dtype=torch.bfloat16)
    yield wrong("scale", "scales of float32", scale_a=one.double())
    yield wrong("scales", "expected one scale for each operand", scale_a=one.repeat(2))
    yield wrong("bias", "a bias of [n]", bias=numbers(8))
    yield wrong("result", "no scale of the result", scale_result=one)
    sixteen = "multiples of 16"
    yield wrong("rows", sixteen, mat2=float8(32, 16))
    yield wrong("narrow", sixteen, self=float8(2, 8), mat2=columns(float8(8, 16)))
    yield wrong("empty", sixteen, self=float8(2, 0), mat2=columns(float8(0, 16)))
