"""What the tests of shims share: random values in awkward layouts, and a strict comparison."""

from collections.abc import Iterator

import torch

FLOATING = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
#: Of sums of products, relative to the largest: one rounding to the dtype; sums in float32.
_SUMS = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 4e-6, torch.float64: 1e-14}


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


def check_sums(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Sums of products, such as of matrices, against the same ones in double precision."""
    assert actual.shape == expected.shape
    if not actual.is_floating_point():
        torch.testing.assert_close(actual, expected.to(actual.dtype), rtol=0, atol=0)
    elif actual.numel():
        error = (actual.double() - expected).abs().max() / expected.abs().max().clamp_min(1e-30)
        assert error <= _SUMS[actual.dtype], float(error)
