"""Resizing with antialias=True in terms of smaller operators gives what torch's operators give."""

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from pteron.exir.operators.antialiased_resizing import antialiased_resizing
from pteron.exir.operators.decompositions import decomposition_table

_SIZES = ((9, 8), (17, 30), (1, 5), (33, 3))
_RESULTS = ((3, 4), (9, 8), (20, 41), (1, 1), (16, 2))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_results_are_torchs(mode: str) -> None:
    operator = getattr(torch.ops.aten, f"_upsample_{mode}2d_aa").default
    resize = antialiased_resizing()[operator]
    for size, result, align_corners in itertools.product(_SIZES, _RESULTS, (False, True)):
        image = torch.randn(2, 3, *size, dtype=torch.float64)
        arguments = (image, result, align_corners, None, None)
        torch.testing.assert_close(resize(*arguments), operator(*arguments), rtol=0, atol=1e-12)
    for factors in ((0.6, 2.3), (1.7, 0.31)):
        image = torch.randn(2, 3, 19, 23)
        expected = F.interpolate(image, scale_factor=factors, mode=mode, antialias=True)
        found = resize(image, expected.shape[-2:], False, *factors)
        torch.testing.assert_close(found, expected, rtol=0, atol=5e-6)


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last], ids=str)
def test_views_of_the_result(format: torch.memory_format) -> None:
    class Flattens(torch.nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            large = F.interpolate(image, size=(12, 10), mode="bicubic", antialias=True)
            return large.view(large.shape[0], large.shape[1], -1) if plain else large

    plain = format == torch.contiguous_format
    image = torch.randn(1, 3, 8, 8).contiguous(memory_format=format)
    expected = Flattens()(image)
    exported = torch.export.export(Flattens(), (image,))
    found = exported.run_decompositions(decomposition_table()).module()(image)
    torch.testing.assert_close(found, expected, rtol=0, atol=5e-6)
    assert found.stride() == expected.stride()


def test_windows_see_nothing_of_what_is_beside_them() -> None:
    operator = torch.ops.aten._upsample_bilinear2d_aa.default
    image = torch.randn(1, 1, 12, 12)
    image[..., 0, 0] = float("inf")
    found = antialiased_resizing()[operator](image, [4, 4], False)
    assert torch.equal(found.isfinite(), operator(image, [4, 4], False, None, None).isfinite())


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last], ids=str)
def test_images_of_bytes_are_rounded_as_by_torch(mode: str, format: torch.memory_format) -> None:
    operator = getattr(torch.ops.aten, f"_upsample_{mode}2d_aa").default
    resize = antialiased_resizing()[operator]
    for size, result in itertools.product(((9, 8), (17, 30), (33, 3)), ((3, 4), (20, 41))):
        image = torch.randint(0, 256, (2, 3, *size), dtype=torch.uint8)
        image = image.contiguous(memory_format=format)
        expected = operator(image, result, False, None, None)
        assert torch.equal(resize(image, result, False), expected)


class Resizes(torch.nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, image: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return F.interpolate(image, size=like.shape[2:], antialias=True, **self.options)


def operators_of(module: torch.nn.Module, *inputs: torch.Tensor) -> tuple[Any, set[str]]:
    """The decomposed program, with dynamic rows of all inputs, and the operators it calls."""
    rows = tuple({2: torch.export.Dim(f"rows{i}", min=1, max=60)} for i in range(len(inputs)))
    program = torch.export.export(module, inputs, dynamic_shapes=rows)
    program = program.run_decompositions(decomposition_table())
    return program.module(), {str(node.target) for node in program.graph.nodes}


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_dynamic_sizes(mode: str) -> None:
    module = Resizes(mode=mode)
    program, operators = operators_of(module, torch.rand(1, 3, 8, 9), torch.rand(1, 1, 5, 20))
    assert not any("_aa" in operator for operator in operators)
    for rows, result in itertools.product((1, 2, 9, 60), (1, 3, 8, 41)):
        inputs = torch.rand(1, 3, rows, 9), torch.rand(1, 1, result, 20)
        torch.testing.assert_close(program(*inputs), module(*inputs), rtol=0, atol=5e-6)


def test_dynamic_sizes_of_aligned_corners_are_left() -> None:
    module = Resizes(mode="bilinear", align_corners=True)
    _, operators = operators_of(module, torch.rand(1, 3, 8, 8), torch.rand(1, 1, 5, 4))
    assert any("_upsample_bilinear2d_aa" in operator for operator in operators)
