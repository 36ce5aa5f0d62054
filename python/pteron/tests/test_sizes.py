"""Models whose Python code counts with sizes that may change, or compares them."""

import itertools
import math
import types
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

import pteron
from pteron.exporter import export_methods

B, N = Dim("b", max=8), Dim("n", max=64)


def exported(model: nn.Module, args: Any, shapes: Any, *others: Any) -> list[str]:
    """The notes of a program that was compared with the model on other inputs."""
    programs, notes = export_methods(model.eval(), args, None, shapes)
    for inputs in (args, *others):
        expected = model(*inputs)
        torch.testing.assert_close(programs["forward"].module()(*inputs), expected)
    return [note for note in notes if "training mode" not in note]


class Parts(nn.Module):
    """As classifier-free guidance, and losses that are computed of several images at once."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, second = torch.cat([x, x + 1]).chunk(2)
        third = torch.cat([x, x + 1, x * 2]).split(x.shape[0])[2]
        last = torch.chunk(torch.cat([x, x, x], 1), chunks=3, dim=-1)[2]
        rest = torch.split(torch.cat([x, x]), split_size_or_sections=x.shape[0])
        return first + second, third, last, rest[1], *x.split([1, 2], 1)


def test_parts_of_dynamic_sizes(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    pteron.export(Parts(), (torch.randn(2, 3),), path, dynamic_shapes=({0: B},))
    method = pteron.Runtime.get().load_program(path).load_method("forward")
    for rows in (1, 5):
        x = torch.randn(rows, 3)
        found: Any = method(x)
        torch.testing.assert_close([torch.as_tensor(each) for each in found], [*Parts()(x)])


def test_distances_of_any_number_of_rows() -> None:
    class Distances(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.cdist(x, y)

    y = torch.randn(30, 3)
    others = [(torch.randn(n, 3), y[:7]) for n in (1, 40)]
    assert not exported(Distances(), (torch.randn(10, 3), y[:7]), ({0: N}, None), *others)


def test_an_example_of_one_row(tmp_path: Path) -> None:
    class Adds(nn.Module):
        def forward(self, x: torch.Tensor, pair: Any, *, y: torch.Tensor) -> torch.Tensor:
            return x + pair["a"][0] + y.sum()

    def inputs(n: int) -> tuple[Any, ...]:
        return torch.randn(n, 3), {"a": [torch.randn(n, 1)]}, torch.randn(2 * n)

    shapes = {"x": {0: B}, "pair": {"a": [[B, None]]}, "y": {0: 2 * B}}
    x, pair, y = inputs(1)
    path = tmp_path / "model.pte"
    report = pteron.export(Adds(), (x, pair), path, kwargs={"y": y}, dynamic_shapes=shapes)
    assert any("exported with size 2" in note for note in report.notes)
    method = pteron.Runtime.get().load_program(path).load_method("forward")
    for n in (1, 3):
        x, pair, y = inputs(n)
        found: Any = method(x, pair, y=y)
        torch.testing.assert_close(torch.as_tensor(found), Adds()(x, pair, y=y))


class Grid(nn.Module):
    """As the heads of YOLO, which keep their anchors while the shape is that of the last call."""

    shape: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.shape != x.shape:
            self.anchors, self.shape = torch.arange(x.shape[1]), x.shape
        return x + self.anchors


class Table(nn.Module):
    """As rotary embeddings, whose table grows with the longest call."""

    length = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > self.length:
            self.length = x.shape[1]
            self.table = torch.arange(self.length).cos()
        return x * self.table[: x.shape[1]]


class Positions(nn.Module):
    """As vision transformers, whose table is resized where the image has another size."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 1, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] == self.table.shape[2]:
            return x + self.table[0]
        table = nn.functional.interpolate(self.table, size=x.shape[1], mode="linear")
        return x + table[0]


@pytest.mark.parametrize("kind", [Grid, Table, Positions])
@pytest.mark.parametrize("length", [6, 4])
def test_sizes_compared_with_those_of_a_call_before(kind: Any, length: int) -> None:
    model = kind()
    x = torch.randn(2, length)
    model(x)
    others = [(torch.randn(n, m),) for n, m in ((2, 6), (5, 9), (1, 1), (2, 3))]
    before = {key: value for key, value in vars(model).items() if not key.startswith("_")}
    shapes = ({0: B, 1: N},)
    (note,) = export_methods(model.eval(), (x,), None, shapes)[1]
    assert "compares sizes that may change, at test_sizes.py:" in note
    after = {key: value for key, value in vars(model).items() if not key.startswith("_")}
    assert all(after[key] is before[key] for key in before if key != "training")
    exported(model, (x,), shapes, *others)


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("compare", ["__eq__", "__gt__"])
def test_sizes_for_which_the_model_computes_something_else(size: int, compare: str) -> None:
    class Chooses(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if getattr(x.shape[0], compare)(size):
                return x * 3
            return x

    with pytest.raises(pteron.ExportError, match="Constraints violated"):
        export_methods(Chooses().eval(), (torch.randn(2, 3),), None, ({0: B},))


def test_sizes_that_are_too_large_to_try() -> None:
    class Chooses(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 3 if x.shape[0] > 1 << 40 else x

    with pytest.raises(pteron.ExportError, match="Constraints violated"):
        export_methods(Chooses().eval(), (torch.randn(2, 3),), None, ({0: Dim("rows")},))


class EvenlySpaced(nn.Module):
    """As coordinates of pixels: of Perceiver and of DINOv3."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = x.shape[0]
        return (
            torch.linspace(-1.0, 1.0, steps=n),
            torch.linspace(x[0, 0], n - 0.5, 2 * n, dtype=torch.float64),
            torch.linspace(0, 1, n, dtype=torch.bfloat16),
            (torch.arange(0.5, n) / n)[:, None] * x,
            torch.arange(start=-1.25, end=n, step=3),
            torch.arange(0.0, n, 0.5),
            torch.arange(0, n, dtype=torch.int32),
        )


def test_evenly_spaced_floats_of_a_dynamic_number(tmp_path: Path) -> None:
    path, model = tmp_path / "model.pte", EvenlySpaced().eval()
    report = pteron.export(model, (torch.randn(4, 3),), path, dynamic_shapes=({0: N},))
    assert not report.notes
    method = pteron.Runtime.get().load_program(path).load_method("forward")
    for rows in (1, 2, 7, 64):
        x = torch.randn(rows, 3)
        found: Any = method(x)
        torch.testing.assert_close([torch.as_tensor(each) for each in found], [*model(x)])


class OfLines(nn.Module):
    """What C++ counts in: maxima of windows, and signals of spectra."""

    def __init__(self) -> None:
        super().__init__()
        self.pools = nn.ModuleList((nn.MaxPool1d(3, 2, ceil_mode=True), nn.MaxPool1d(4, 1, 2, 1)))
        self.window = nn.Buffer(torch.hann_window(12))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        spectra = torch.stft(x, 16, 4, 12, self.window, return_complex=True)
        whole = torch.stft(x, 8, onesided=False, normalized=True, return_complex=True)
        return (
            *(pool(x[None]) for pool in self.pools),
            F.max_pool1d(x[None], kernel_size=2, stride=1),
            torch.istft(spectra, 16, 4, 12, self.window),
            torch.istft(spectra, 16, 4, win_length=12, window=self.window, length=x.shape[1]),
            torch.istft(whole, 8, normalized=True, onesided=False).abs(),
            whole.istft(8, normalized=True, onesided=False, return_complex=True).real,
        )


def test_windows_and_spectra_of_a_dynamic_length(tmp_path: Path) -> None:
    path, model = tmp_path / "model.pte", OfLines().eval()
    shapes = ({1: Dim("length", min=16, max=400)},)
    report = pteron.export(model, (torch.randn(2, 60),), path, dynamic_shapes=shapes)
    assert not report.notes
    method = pteron.Runtime.get().load_program(path).load_method("forward")
    for length in (16, 61, 62, 400):
        x = torch.randn(2, length)
        found: Any = method(x)
        for each, expected in zip(found, model(x), strict=True):
            torch.testing.assert_close(torch.as_tensor(each), expected, rtol=1e-4, atol=1e-5)


class Together(nn.ModuleList):
    """What each module returns for the same input."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [each for module in self for each in pytree.tree_leaves(module(x))]


@pytest.mark.parametrize("rows", [20, 21])  # that round up to the same, and do not
def test_pools_of_images_of_any_size(rows: int, tmp_path: Path) -> None:
    """Of windows that reach over the edge, and to an output of a given size."""
    volume = nn.Unflatten(1, (2, 2))
    model = Together(
        [
            nn.MaxPool2d(2, ceil_mode=True),
            nn.MaxPool2d(2, 2, dilation=3, ceil_mode=True),
            nn.MaxPool2d(3, 2, 1, ceil_mode=True, return_indices=True),
            nn.AvgPool2d(3, 2, 1, ceil_mode=True),
            nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False),
            nn.LPPool2d(2, 3, 2, ceil_mode=True),
            nn.Sequential(volume, nn.MaxPool3d((1, 2, 2), ceil_mode=True)),
            nn.Sequential(volume, nn.AvgPool3d((1, 3, 3), 2, ceil_mode=True)),
            nn.AdaptiveAvgPool2d((7, 3)),
            nn.AdaptiveAvgPool2d((None, 4)),
            nn.AdaptiveMaxPool2d(5, return_indices=True),
        ]
    ).eval()
    path, shapes = (
        tmp_path / "model.pte",
        ({2: Dim("rows", min=7, max=130), 3: Dim("columns", min=7, max=60)},),
    )
    report = pteron.export(model, (torch.randn(1, 4, rows, 24),), path, dynamic_shapes=shapes)
    assert not report.notes
    method = pteron.Runtime.get().load_program(path).load_method("forward")
    for height, width in itertools.product((7, 8, 33, 64, 130), (7, 24, 25, 60)):
        x = torch.randn(1, 4, height, width)
        found: Any = method(x)
        for each, expected in zip(found, model(x), strict=True):
            torch.testing.assert_close(torch.as_tensor(each), expected)


class Numbers(nn.Module):
    """Makes numbers of sizes; the text is what torch.export(strict=True) does not take."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(f"{x.shape[0]}") > 9:
            raise ValueError("too many")
        scale = float(x.shape[0]) * math.sqrt(x.shape[0])
        assert isinstance(scale, float | torch.SymFloat)
        return x[: int(x.shape[0])] / scale


@pytest.mark.parametrize("rows", [N, 4 * Dim("quarter", max=16)])
def test_numbers_of_dynamic_sizes(rows: Any) -> None:
    others = [(torch.randn(n, 3),) for n in (4, 12, 64)]
    (note,) = exported(Numbers(), (torch.randn(8, 3),), ({0: rows},), *others)
    assert "makes numbers of them" in note
    assert "int" not in globals() and isinstance(math, types.ModuleType)


class OneNumber(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * len(range(x.shape[0] // 4))


def test_a_derived_size_that_is_made_constant() -> None:
    shapes = ({0: 4 * Dim("quarter", max=16)},)
    with pytest.raises(
        pteron.ExportError, match=r"specialized it to be a constant,\n.*test_sizes.py"
    ):
        export_methods(OneNumber().eval(), (torch.randn(8, 3),), None, shapes)


class Squeezes(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.sum(-1, keepdim=True).squeeze(), x[:, None].squeeze(1), x.squeeze(0)


class OneRow(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3 if x.shape[0] == 1 else x


@pytest.mark.parametrize("kind", [Squeezes, OneRow])
def test_one_row_for_which_the_model_computes_something_else(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    model = kind().eval()
    (note,) = pteron.export(model, (torch.randn(2, 3),), path, dynamic_shapes=({0: B},)).notes
    assert "where b is 1" in note and "min=2" in note


class Head(nn.Module):
    """A detector's, with the grid of the last call."""

    def __init__(self) -> None:
        super().__init__()
        self.grid = torch.empty(0)
        self.pool = nn.AvgPool2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.pool(x)
        rows, columns = y.shape[2:]
        if self.grid.shape != y.shape[2:]:
            self.grid = torch.arange(rows)[:, None] * 100.0 + torch.arange(columns)
        return (y + self.grid).view(y.shape[0], -1)


def test_sizes_of_the_last_call_where_dims_are_derived() -> None:
    rows, columns = Dim("rows", min=1, max=8), Dim("columns", min=1, max=8)
    model, x = Head().eval(), torch.randn(2, 3, 32, 48)
    model(x)
    programs, notes = export_methods(model, (x,), None, ({0: B, 2: 8 * rows, 3: 8 * columns},))
    assert "compares sizes that may change" in "".join(notes)
    for size in ((1, 3, 64, 16), (3, 3, 8, 40)):
        x = torch.randn(size)
        found = programs["forward"].module(check_guards=False)(x)
        torch.testing.assert_close(found, model(x))


class Restores(nn.Module):
    """Of an image that is padded to a multiple of 16, and cropped."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 3, 4, 4), nn.ConvTranspose2d(3, 3, 4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        height, width = x.shape[-2:]
        y = F.pad(x, (0, (16 - width % 16) % 16, 0, (16 - height % 16) % 16), "reflect")
        return self.up(self.down(y))[..., :height, :width] + x


class Windows(nn.Module):
    """Attention within shifted windows of 4 x 4, as in Swin transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(3, 1, batch_first=True)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = image.movedim(1, -1)
        batch, height, width, channels = x.shape
        x = F.pad(x, (0, 0, 0, (4 - width % 4) % 4, 0, (4 - height % 4) % 4))
        rows, columns = x.shape[1] // 4, x.shape[2] // 4
        x = torch.roll(x, (-2, -2), (1, 2)).view(batch, rows, 4, columns, 4, channels)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, channels)
        x = self.attention(x, x, x, need_weights=False)[0]
        x = x.view(batch, rows, columns, 4, 4, channels).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(batch, rows * 4, columns * 4, channels)
        return image + torch.roll(x, (2, 2), (1, 2))[:, :height, :width].movedim(-1, 1)


@pytest.mark.parametrize("kind, least", [(Restores, 16), (Windows, 4)])
def test_images_that_are_padded_to_a_multiple(kind: type[nn.Module], least: int) -> None:
    shapes = ({0: B, 2: Dim("rows", min=least, max=96), 3: Dim("columns", min=least, max=96)},)
    others = [(torch.randn(1, 3, *size),) for size in ((33, 61), (16, 48), (19, 22))]
    (note,) = exported(kind(), (torch.randn(2, 3, 32, 40),), shapes, *others)
    assert "was compared with the model" in note


def test_elements_along_a_dynamic_dimension() -> None:
    class Sorts(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            best = torch.take_along_dim(x, x[..., :1].argmax(1, keepdim=True), dim=1)
            return best + x.take_along_dim(x.argsort(1), 1)

    others = [(torch.randn(1, n, 3),) for n in (1, 5, 40)]
    assert not exported(Sorts(), (torch.randn(2, 7, 3),), ({0: B, 1: N},), *others)


class Uniques(nn.Module):
    """As losses over the classes in a batch, and graphs whose nodes are renumbered."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, places, counts = torch.unique(x.round(), return_inverse=True, return_counts=True)
        runs = torch.unique_consecutive(x.round().flatten())
        return values, places, counts, runs, torch.unique(x.round(), dim=0), x.unique()


def test_there_are_no_more_unique_values_than_values() -> None:
    programs, _ = export_methods(Uniques(), (torch.randn(5, 3),), None, ({0: N},))
    ranges = programs["forward"].range_constraints
    assert {range_.upper for range_ in ranges.values()} == {64, 3 * 64}
    for rows in (1, 2, 7):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(programs["forward"].module()(x), Uniques()(x))
