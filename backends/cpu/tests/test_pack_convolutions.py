"""Convolutions of images become one operator with the zeros around them and what follows."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim, ExportedProgram, export

from pteron.backends.aoti.ops.convolution.convolution import (
    CONVOLUTION,
    PACKED_CONVOLUTION,
    WINOGRAD_CONVOLUTION,
)
from pteron.backends.cpu import CpuBackend, CpuOptions, CpuPartitioner
from pteron.backends.cpu.passes.pack_convolutions import pack_convolutions
from pteron.exir import to_edge_transform_and_lower
from pteron.exir.operators.decompositions import decompose, functionalize
from pteron.runtime import Runtime


class Model(nn.Module):
    """`follow` gets a convolution, an image, and a tensor like the convolution's result."""

    def __init__(self, follow: Callable[..., torch.Tensor], *sizes: int, **of: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(*(sizes or (8, 16, 3)), **of)
        self.follow = follow

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.follow(self.conv, x, y)


def program_of(module: nn.Module, *inputs: torch.Tensor, **of: Any) -> ExportedProgram:
    return decompose(functionalize(export(module.eval(), inputs, **of)), ())


def calls(program: ExportedProgram, op: torch._ops.OpOverload) -> list[torch.fx.Node]:
    return list(program.graph.find_nodes(op="call_function", target=op))


def packed(model: Model, x: torch.Tensor, y: torch.Tensor) -> list[tuple[Any, ...]]:
    """The padding, whether there is a residual, and the bounds of each packed convolution; results
    are those of `model`."""
    program = program_of(model, x, y)
    (name,) = program.graph_signature.user_outputs
    pack_convolutions(program)
    program.graph_module.graph.lint()
    (result,) = program.graph.output_node().args[0]  # type: ignore[misc]
    assert isinstance(result, torch.fx.Node) and result.name == name
    torch.testing.assert_close(program.module(check_guards=False)(x, y), model(x, y))
    found = calls(program, PACKED_CONVOLUTION)
    for call in found:
        assert call.meta["val"].dtype == torch.float32
    return [(call.args[6], call.args[2] is not None, *call.args[9:]) for call in found]


_X, _Y = torch.randn(2, 8, 6, 5), torch.randn(2, 16, 6, 5)
_AROUND = [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("follow", "expected"),
    [
        (lambda conv, x, y: conv(x), (_AROUND, False, None, None)),
        (lambda conv, x, y: F.relu(conv(x)), (_AROUND, False, 0.0, None)),
        (lambda conv, x, y: F.relu6(conv(x)), (_AROUND, False, 0.0, 6.0)),
        (lambda conv, x, y: F.hardtanh(conv(x)), (_AROUND, False, -1.0, 1.0)),
        (lambda conv, x, y: conv(x).clamp(max=0.5), (_AROUND, False, None, 0.5)),
        (lambda conv, x, y: conv(x).clamp_min(0.5), (_AROUND, False, 0.5, None)),
        (lambda conv, x, y: y + conv(x), (_AROUND, True, None, None)),
        (lambda conv, x, y: F.relu(conv(x) + y), (_AROUND, True, 0.0, None)),
        (lambda conv, x, y: F.relu(conv(x)) + y, (_AROUND, False, 0.0, None)),
        # What is not the same in every element, or counted more than once, is left alone.
        (lambda conv, x, y: F.relu(conv(x) + y[:, :, :1]), (_AROUND, False, None, None)),
        (lambda conv, x, y: (c := conv(x)) + F.relu(c), (_AROUND, False, None, None)),
        (lambda conv, x, y: conv(x).clamp(y, y + 1), (_AROUND, False, None, None)),
        # Zeros around the image.
        (lambda conv, x, y: conv(F.pad(x, (1, 2, 3, 4))), ([4, 5, 2, 3], False, None, None)),
        (lambda conv, x, y: conv(F.pad(x, (0, 1))), ([1, 1, 1, 2], False, None, None)),
        (lambda conv, x, y: conv(F.pad(x, (0, -1))), (_AROUND, False, None, None)),
        (lambda conv, x, y: conv(F.pad(x, (1, 1), value=2.0)), (_AROUND, False, None, None)),
        (
            lambda conv, x, y: conv(F.pad(x[:, :7], (0, 0, 0, 0, 0, 1))),
            (_AROUND, False, None, None),
        ),
        (lambda conv, x, y: conv(p := F.pad(x, (0, 1))) + p[:, :1], (_AROUND, False, None, None)),
    ],
)
def test_what_is_around_is_taken_in(
    follow: Callable[..., torch.Tensor], expected: tuple[Any, ...]
) -> None:
    assert packed(Model(follow, padding=1), _X, _Y) == [expected]


@pytest.mark.parametrize(
    "of",
    [
        {"bias": False},
        {"stride": 2},
        {"stride": (1, 2), "dilation": (2, 1), "padding": (0, 3)},
        {"sizes": (8, 8, 3), "groups": 8},
        {"sizes": (8, 24, 3), "groups": 8},
        {"sizes": (8, 32, 3), "groups": 2},
        {"sizes": (8, 16, 3), "groups": 2},
        {"sizes": (8, 72, 3), "groups": 4},
        {"sizes": (8, 9, 3)},
        {"sizes": (8, 16, 1)},
        {"sizes": (8, 3, 1)},
        {"sizes": (8, 16, 1), "stride": 2},
        {"sizes": (8, 16, 1), "padding": 1},
    ],
)
def test_kinds(of: dict[str, Any]) -> None:
    sizes = of.pop("sizes", ())
    assert len(packed(Model(lambda conv, x, y: conv(x), *sizes, **of), _X, _Y)) == 1


def _many_channels(follow: Callable[..., torch.Tensor], *sizes: int, **of: Any) -> Model:
    return Model(follow, *(sizes or (32, 48, 3)), **{"padding": 1, **of})


@pytest.mark.parametrize(
    ("model", "size", "expected"),
    [
        (_many_channels(lambda conv, x, y: conv(x)), 8, [_AROUND, None, None]),
        (_many_channels(lambda conv, x, y: F.relu(conv(x) + y)), 9, [_AROUND, 0.0, None]),
        (_many_channels(lambda conv, x, y: conv(x), padding=0), 10, [[0, 0, 0, 0], None, None]),
        (
            _many_channels(lambda conv, x, y: F.relu6(conv(F.pad(x, (0, 1)))), bias=False),
            (8, 7),
            [[1, 1, 1, 2], 0.0, 6.0],
        ),
        (_many_channels(lambda conv, x, y: conv(x), stride=2), 16, None),
        (_many_channels(lambda conv, x, y: conv(x), dilation=2, padding=2), 8, None),
        (_many_channels(lambda conv, x, y: conv(x), 64, 64, 3, groups=2), 8, None),
        (_many_channels(lambda conv, x, y: conv(x), 31, 48, 3), 8, None),
        (_many_channels(lambda conv, x, y: conv(x), 32, 31, 3), 8, None),
        (_many_channels(lambda conv, x, y: conv(x), 32, 32, 5, padding=2), 8, None),
        (_many_channels(lambda conv, x, y: conv(x)), 7, None),
    ],
)
def test_many_channels_are_convolved_by_winograd(
    model: Model, size: int | tuple[int, int], expected: list[Any] | None
) -> None:
    space = (size, size) if isinstance(size, int) else size
    x = torch.randn(2, model.conv.in_channels, *space)
    y = torch.randn_like(model.conv(x))
    program = program_of(model, x, y)
    pack_convolutions(program)
    found = [[*call.args[4:]] for call in calls(program, WINOGRAD_CONVOLUTION)]
    assert found == ([] if expected is None else [expected])
    torch.testing.assert_close(
        program.module(check_guards=False)(x, y), model(x, y), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("of", "kernel", "sides"),
    [
        # An image of 6 x 5.
        ({"padding": 6, "dilation": 6}, [1, 1], [0, 0, 0, 0]),
        ({"padding": 6, "dilation": 6, "sizes": (8, 8, 3), "groups": 8}, [1, 1], [0, 0, 0, 0]),
        ({"padding": 5, "dilation": 5}, [3, 1], [5, 5, 0, 0]),
        ({"padding": 4, "dilation": 4}, [3, 3], [4, 4, 4, 4]),
        ({"padding": 7, "sizes": (8, 16, 15)}, [11, 9], [5, 5, 4, 4]),
        ({"padding": 7, "sizes": (8, 16, 15), "stride": 3}, [9, 8], [3, 5, 3, 4]),
        ({"padding": 9, "dilation": 6}, [3, 3], [9, 9, 9, 9]),
        ({"padding": 9, "dilation": 9, "stride": 9}, [1, 1], [0, 0, 0, 0]),
        # Else the image would have to begin further inside.
        ({"padding": (0, 5), "dilation": (1, 6), "sizes": (8, 16, (1, 2))}, [1, 2], [0, 0, 5, 5]),
    ],
)
def test_taps_that_only_meet_zeros_are_left_out(
    of: dict[str, Any], kernel: list[int], sides: list[int]
) -> None:
    sizes = of.pop("sizes", ())
    model = Model(lambda conv, x, y: conv(x), *sizes, **of)
    assert [found[0] for found in packed(model, _X, _Y)] == [sides]
    program = program_of(model, _X, _Y)
    pack_convolutions(program)
    assert [call.args[4] for call in calls(program, PACKED_CONVOLUTION)] == [kernel]


@pytest.mark.parametrize(
    "model",
    [
        Model(lambda conv, x, y: conv(x.mean((2, 3), keepdim=True)), 8, 16, 1),  # of two rows
        Model(lambda conv, x, y: conv(x[:, :, :, :4]), 8, 16, 2, stride=2),  # another one
        Model(lambda conv, x, y: conv(x), 8, 16, 3, groups=4),  # a quarter of a panel
        Model(lambda conv, x, y: conv(x), 8, 7, 3),
        Model(lambda conv, x, y: F.conv2d(x, conv.weight * x.sum(), padding=1)),
        Model(lambda conv, x, y: conv(x.double()).float(), dtype=torch.float64),
        Model(lambda conv, x, y: F.conv_transpose2d(x, conv.weight[:8])),
    ],
)
def test_others_stay(model: Model) -> None:
    assert packed(model, _X, _Y) == []
    assert calls(program_of(model, _X, _Y), CONVOLUTION) != []


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_products_of_many_pixels_are_packed(is_dynamic: bool) -> None:
    model = nn.Sequential(nn.Conv2d(64, 2048, 1), nn.SiLU()).eval()
    dims = ({2: Dim("height", min=20, max=90)},) if is_dynamic else None
    program = program_of(model, torch.randn(1, 64, 40, 32), dynamic_shapes=dims)
    pack_convolutions(program)
    assert len(calls(program, PACKED_CONVOLUTION)) == 1


def test_weights_of_two_convolutions_are_arranged_once() -> None:
    model = Model(lambda conv, x, y: conv(conv(y)), 16, 16, 3)
    program = program_of(model, _X, _Y)
    pack_convolutions(program)
    assert len(calls(program, PACKED_CONVOLUTION)) == 2
    assert [list(value.shape) for value in program.state_dict.values()] == [[1, 1, 145, 16]]


class Network(nn.Module):
    """Strided, padded on two sides, depthwise, over many channels; 1x1 products and a residual."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Conv2d(3, 24, 3, stride=2, bias=False), nn.BatchNorm2d(24)
        self.wide, self.narrow = nn.Conv2d(24, 72, 1), nn.Conv2d(72, 24, 1)
        self.depthwise = nn.Conv2d(72, 72, 3, padding=1, groups=72)
        self.around = nn.Conv2d(72, 72, 3, padding=(0, 1))
        self.last, self.head = nn.Conv2d(24, 33, 3, 2, padding=1), nn.Linear(33, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu6(self.norm(self.first(F.pad(x, (0, 1, 0, 1)))))
        wide = F.relu6(self.depthwise(F.relu6(self.wide(x))))
        x = x[:, :, 1:-1] + self.narrow(self.around(wide))
        x = F.relu(self.last(x))
        scores: torch.Tensor = self.head(x.mean((2, 3)))
        return scores


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (CpuOptions(), True),
        (CpuOptions(isa="x86-64-v3"), True),
        (CpuOptions(isa=("x86-64-v2", "x86-64-v3")), False),
        (CpuOptions(weights="shared"), False),
    ],
)
def test_lowered(options: CpuOptions, expected: bool) -> None:
    """Any batch and any size; weights that methods share, and code without AVX2, stay."""
    model = Network().eval()
    dims = ({0: Dim("batch", max=8), 2: Dim("height", min=20, max=90)},)
    exported = export(model, (torch.randn(2, 3, 41, 38),), dynamic_shapes=dims)
    lowered = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner(options)])
    program = lowered.to_executorch()
    for kind in ("packed", "winograd"):
        assert (f"aoti_torch_cpu_{kind}_convolution" in str(lowered.explain())) == expected
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    for batch, height in ((2, 41), (1, 20), (5, 64)):
        x = torch.randn(batch, 3, height, 38)
        (found,) = method.execute([x])
        torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)


def test_images_that_lie_in_any_way() -> None:
    """An input that is a transposed view, a result that others read row-major."""

    def follow(conv: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return conv(x.transpose(2, 3)).flatten(1) + conv(y[:, ::2]).transpose(2, 3).flatten(1)

    model = Model(follow, padding=1).eval()
    exported = export(model, (_X, _Y))
    lowered = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    assert "aoti_torch_cpu_packed_convolution" in str(lowered.explain())
    method = Runtime.get().load_program(lowered.to_executorch().buffer).load_method("forward")
    (found,) = method.execute([_X, _Y])
    torch.testing.assert_close(found, model(_X, _Y), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("of", "count"),
    [
        ({"padding": 2, "stride": 2, "dilation": 2}, 1),
        ({"bias": False, "padding": "same"}, 1),
        ({"groups": 8, "out_channels": 8}, 1),
        ({"groups": 2}, 1),
        ({"kernel_size": 1}, 1),
        ({"kernel_size": 4, "stride": 4}, 1),
        ({"out_channels": 4}, 0),
        ({"groups": 4}, 0),
    ],
)
def test_lines_are_images(of: dict[str, Any], count: int) -> None:
    """Zeros before a line and its own padding are one."""
    torch.manual_seed(0)
    conv = nn.Conv1d(8, **{"out_channels": 16, "kernel_size": 3, **of})
    model = nn.Sequential(nn.ConstantPad1d((3, 0), 0.0), conv)
    x = torch.randn(2, 20, 8).transpose(1, 2)
    program = program_of(model, x)
    pack_convolutions(program)
    program.graph_module.graph.lint()
    found = calls(program, PACKED_CONVOLUTION)
    assert len(found) == count
    assert all(call.args[6][2] >= 3 for call in found)  # type: ignore[index]
    torch.testing.assert_close(program.module(check_guards=False)(x), model(x))


def test_lines_of_any_batch_and_length() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.ConstantPad1d((3, 0), 0.0), nn.Conv1d(8, 16, 3, stride=2, dilation=2, padding=2),
        nn.GELU(), nn.Conv1d(16, 32, 5, groups=2, bias=False),
        nn.Conv1d(32, 32, 3, groups=32, padding=1), nn.BatchNorm1d(32), nn.Conv1d(32, 5, 1),
    ).eval()  # fmt: skip
    dims = ({0: Dim("batch", max=8), 2: Dim("length", min=12, max=200)},)
    exported = export(model, (torch.randn(2, 8, 20),), dynamic_shapes=dims)
    lowered = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    method = Runtime.get().load_program(lowered.to_executorch().buffer).load_method("forward")
    for batch, length in ((2, 20), (1, 12), (3, 200)):
        x = torch.randn(batch, length, 8).transpose(1, 2)
        torch.testing.assert_close(method.execute([x])[0], model(x), rtol=1e-4, atol=1e-5)


def test_lines_between_convolutions_keep_channels_inside() -> None:
    """Nothing transposes them, there and back."""
    model = nn.Sequential(
        nn.Conv1d(2, 32, 3), nn.GELU(), nn.Conv1d(32, 32, 3), nn.GroupNorm(32, 32), nn.GELU(),
        nn.Conv1d(32, 16, 3), nn.GELU(), nn.Flatten(),
    )  # fmt: skip
    program = program_of(model, torch.randn(1, 2, 300))
    options = CpuOptions(isa="x86-64-v3")
    targets = CpuBackend.get_build_targets(options)
    (code,) = CpuBackend._prepare_and_generate(program, targets, options)[1]
    between, flat = code.kernels.rsplit('extern "C"', 1)
    assert "erf" in between and "transpose" not in between
    assert "erf" in flat


@pytest.mark.parametrize(
    ("of", "count"),
    [
        ({"kernel_size": (1, 3, 3), "padding": (0, 1, 1), "stride": (1, 2, 1)}, 1),
        ({"kernel_size": (1, 3, 2), "dilation": (1, 2, 1), "bias": False}, 1),
        ({"kernel_size": (1, 3, 3), "stride": (2, 1, 1)}, 0),
        ({"kernel_size": (1, 3, 3), "padding": (1, 0, 0)}, 0),
        ({"kernel_size": (3, 3, 3)}, 0),
        ({"kernel_size": (1, 1, 1)}, 0),
        ({"kernel_size": (1, 3, 3), "groups": 8}, 0),
        ({"kernel_size": (1, 3, 3), "out_channels": 4}, 0),
    ],
)
def test_planes_of_a_volume_are_images(of: dict[str, Any], count: int) -> None:
    """Of any batch and depth, of any memory format."""
    torch.manual_seed(0)
    model = nn.Conv3d(8, **{"out_channels": 16, **of}).eval()
    dims = ({0: Dim("batch", max=8), 2: Dim("depth", min=4, max=20)},)
    exported = export(model, (torch.randn(2, 8, 5, 7, 6),), dynamic_shapes=dims)
    program = decompose(functionalize(exported), ())
    pack_convolutions(program)
    program.graph_module.graph.lint()
    assert len(calls(program, PACKED_CONVOLUTION)) == count
    assert all(conv.meta["val"].dim() == 5 for conv in calls(program, CONVOLUTION))
    lowered = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    method = Runtime.get().load_program(lowered.to_executorch().buffer).load_method("forward")
    for batch, depth in ((2, 5), (1, 4), (3, 20)):
        x = torch.randn(batch, 8, depth, 7, 6)
        for found in (program.module(check_guards=False)(x), *method.execute([x])):
            torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("of", "planes", "count"),
    [
        ({"padding": 1}, 5, 3),
        ({"padding": (2, 1, 1), "dilation": (2, 1, 1), "bias": False}, 6, 3),
        ({"stride": (2, 1, 1), "kernel_size": (2, 3, 3), "padding": (0, 1, 1)}, 5, 2),
        ({"stride": (2, 1, 1), "kernel_size": (1, 3, 3), "padding": (1, 1, 1)}, 4, 1),
        ({"padding": 1, "stride": (1, 2, 1)}, 5, 3),
        ({"padding": 2, "kernel_size": 5}, 2, 3),
        ({"padding": (3, 1, 1), "kernel_size": (1, 3, 3), "stride": (7, 1, 1)}, 1, 1),
        ({"padding": 1, "groups": 2}, 5, 0),
        ({"kernel_size": (3, 3, 1)}, 5, 0),
        ({}, 5, 3),
    ],
)
def test_a_volume_is_a_sum_of_images(of: dict[str, Any], planes: int, count: int) -> None:
    """Of kernels with many terms in a plane, without planes that meet nothing but padding."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv3d(32, 40, **{"kernel_size": (3, 3, 3), **of}), nn.ReLU(), nn.Flatten(2)
    ).eval()
    x = torch.randn(1, 32, planes, 9, 8)
    exported = export(model, (x,))
    program = decompose(functionalize(exported), ())
    pack_convolutions(program)
    program.graph_module.graph.lint()
    assert (
        sum(len(calls(program, op)) for op in (PACKED_CONVOLUTION, WINOGRAD_CONVOLUTION)) == count
    )
    lowered = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    method = Runtime.get().load_program(lowered.to_executorch().buffer).load_method("forward")
    for found in (program.module(check_guards=False)(x), *method.execute([x])):
        torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)
