"""Convolutions: shims against torch's operators."""

import pytest
import torch

from pteron.backends.cpu.runtime.tests.shim_caller import (
    Optional,
    ShimError,
    ShimLibrary,
)
from pteron.backends.cpu.runtime.tests.shim_testing import (
    FLOATING,
    check,
    check_sums,
    layouts,
    values,
)

aten = torch.ops.aten

CONVOLUTIONS = [
    # input, weight, stride, padding, dilation, transposed, output padding, groups
    ((2, 3, 17), (5, 3, 4), [2], [1], [1], False, [0], 1),
    ((1, 4, 9), (6, 2, 3), [1], [2], [2], False, [0], 2),
    ((2, 3, 15, 14), (8, 3, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    ((1, 16, 20, 20), (32, 16, 3, 3), [2, 2], [1, 1], [1, 1], False, [0, 0], 1),
    ((2, 8, 9, 11), (24, 8, 1, 1), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    ((1, 8, 9, 11), (24, 8, 1, 1), [2, 2], [0, 0], [1, 1], False, [0, 0], 1),
    ((2, 12, 13, 13), (12, 1, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 12),
    ((1, 40, 14, 13), (40, 1, 3, 3), [2, 1], [1, 1], [1, 1], False, [0, 0], 40),
    ((2, 12, 14, 13), (24, 1, 5, 5), [2, 2], [2, 2], [1, 1], False, [0, 0], 12),
    ((1, 6, 30, 31), (9, 2, 3, 2), [3, 1], [0, 4], [2, 3], False, [0, 0], 3),
    ((1, 3, 64, 64), (16, 3, 7, 7), [2, 2], [3, 3], [1, 1], False, [0, 0], 1),
    ((1, 1, 1, 1), (4, 1, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    ((2, 5, 1, 1), (19, 5, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    ((1, 32, 7, 7), (150, 32, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    ((3, 48, 4, 5), (96, 48, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    ((1, 6, 14, 13), (35, 6, 5, 3), [1, 1], [2, 1], [1, 1], False, [0, 0], 1),
    ((2, 20, 31, 33), (22, 10, 3, 3), [2, 2], [1, 1], [1, 1], False, [0, 0], 2),
    ((1, 4, 29, 30), (16, 4, 3, 3), [1, 1], [6, 6], [6, 6], False, [0, 0], 1),
    ((1, 4, 5, 6), (8, 4, 3, 3), [1, 2], [5, 7], [2, 3], False, [0, 0], 1),
    ((1, 6, 23, 24), (12, 6, 4, 5), [3, 4], [1, 2], [2, 2], False, [0, 0], 1),
    ((1, 8, 40, 41), (16, 8, 1, 1), [2, 3], [1, 0], [1, 1], False, [0, 0], 1),
    ((1, 3, 64, 64), (24, 3, 8, 8), [8, 8], [0, 0], [1, 1], False, [0, 0], 1),
    ((1, 64, 48, 48), (64, 64, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    ((1, 2, 3, 1500), (17, 2, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    ((2, 16, 17, 18), (32, 4, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 4),
    ((2, 10, 700), (33, 10, 5), [1], [2], [1], False, [0], 1),
    ((1, 12, 999), (24, 6, 4), [3], [4], [2], False, [0], 2),
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
        )
        pairs = [(layout, weight) for layout in layouts(x)]
        if x.dim() == 4:
            last = [t.to(memory_format=torch.channels_last) for t in (x, weight)]
            pairs += [(last[0], weight), (x, last[1]), (last[0], last[1])]
        for layout, weight_layout in pairs:
            actual = shims.call(
                "cpu_convolution", layout, weight_layout, Optional(bias), stride, padding,
                dilation, transposed, output_padding, groups, results=1,
            )  # fmt: skip
            assert actual.dtype == dtype
            check_sums(actual, expected)


def test_convolution_is_channels_last_where_torch_is(shims: ShimLibrary) -> None:
    x, weight = values(2, 3, 8, 9), values(4, 3, 3, 3)
    line, taps = values(2, 3, 9), values(4, 3, 3)
    last = torch.channels_last
    pairs = [
        (x, weight),
        (x.to(memory_format=last), weight),
        (x, weight.to(memory_format=last)),
        (x.permute(0, 1, 3, 2).contiguous().permute(0, 1, 3, 2), weight),
        (values(2, 1, 8, 9), values(4, 1, 3, 3)),
        (values(2, 3, 1, 1).to(memory_format=last), values(4, 3, 1, 1)),
        # In one dimension only the weight's layout counts.
        *((a, b) for a in _both_layouts(line) for b in _both_layouts(taps)),
        *((line, b) for b in _both_layouts(values(4, 3, 1))),
    ]
    for a, b in pairs:
        ones, zeros = [1] * (a.dim() - 2), [0] * (a.dim() - 2)
        padding = [b.shape[2] // 2] * len(ones)
        for transposed, weight in ((False, b), (True, _like(b.transpose(0, 1), b))):
            arguments = (ones, padding, ones, transposed, zeros, 1)
            actual = shims.call("cpu_convolution", a, weight, None, *arguments, results=1)
            with torch.backends.mkldnn.flags(enabled=False):
                expected = aten.convolution(a, weight, None, *arguments)
            check(actual, expected, 1e-4)


def _like(tensor: torch.Tensor, layout: torch.Tensor) -> torch.Tensor:
    """Its numbers, with dimensions in memory in the order of another's."""
    order = sorted(range(tensor.dim()), key=lambda d: -layout.stride(d))
    inverse = sorted(range(tensor.dim()), key=order.__getitem__)
    return tensor.permute(order).contiguous().permute(inverse)


def _both_layouts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """A tensor of three dimensions as it is, and laid out as channels-last ones are."""
    return [tensor, tensor.transpose(1, 2).contiguous().transpose(1, 2)]


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
