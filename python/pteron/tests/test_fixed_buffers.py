"""Models that read their buffers in Python (flags, counters, thresholds), and check values.

PYTEST_DONT_REWRITE: pytest would replace the `assert` of a model, too.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn

import pteron
from pteron.exporter import export_methods


class Codebook(nn.Module):
    """As vector quantizers and normalizing flows: made ready by the first batch, unless it is."""

    def __init__(self, ready: bool, changes: bool = False) -> None:
        super().__init__()
        self.changes = changes
        self.register_buffer("ready", torch.tensor([ready]))
        self.register_buffer("codes", torch.arange(12.0).view(4, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.ready:
            x = x + 100
        if (self.ready < 1).all() or not self.ready > 0:
            x = x + 50
        if self.changes:
            self.ready.fill_(True)
        return self.codes[torch.cdist(x, self.codes).argmin(-1)]


class Network(nn.Module):
    def __init__(self, ready: bool) -> None:
        super().__init__()
        self.inner = Codebook(ready)
        self.register_buffer("steps", torch.tensor(2))
        self.register_buffer("limit", torch.tensor(0.5, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(int(self.steps)):
            x = self.inner(x)
        return x if self.limit.item() > 0.25 else -x


X = torch.tensor([[0.2, 1.1, 2.3], [8.0, 9.5, 7.0]])


@pytest.mark.parametrize("ready", [True, False])
def test_the_program_is_for_their_values(ready: bool, tmp_path: Path) -> None:
    model, path = Network(ready).eval(), tmp_path / "model.pte"
    report = pteron.export(model, (X,), path)
    values = f"steps (2), inner.ready ({ready}), limit (0.5)"
    assert any(note.endswith(f"these values of {values}") for note in report.notes), report.notes
    other = torch.tensor([[100.0, 1.0, 1.0], [-5.0, 4.0, 0.0]])
    method = pteron.Runtime.get().load_program(path).load_method("forward")
    (found,) = method.execute([other])
    torch.testing.assert_close(torch.as_tensor(found), model(other), rtol=0, atol=0)


def test_what_forward_changes_is_not_fixed(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    with pytest.raises(pteron.ExportError, match="data-dependent"):
        pteron.export(Codebook(False, changes=True).eval(), (X,), path)
    assert not path.exists()


def test_what_inputs_decide_is_not_fixed(tmp_path: Path) -> None:
    class Decides(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("limit", torch.tensor(0.5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > self.limit else -x

    with pytest.raises(pteron.ExportError, match="data-dependent"):
        pteron.export(Decides().eval(), (X,), tmp_path / "model.pte")


class Solver(nn.Module):
    """As solvers of differential equations: the times are constants, and decide about the steps."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ends", torch.tensor([0.0, 1.0, 4.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        times = torch.linspace(0, 4, 9)
        results = x.new_zeros(3, x.shape[0], x.shape[1])
        results[0] = x
        i = torch.zeros(1, dtype=torch.int64)
        i += 1
        if times[0] > times[1] or not torch.equal(times, times.sort().values):
            times = times.flip(0)
        for begin, end in zip(times[:-1], times[1:], strict=True):
            x = x + (end - begin) * x.cos()
            if end == self.ends[i]:
                results[int(i)] = x
                i += 1
        return results


def test_what_depends_on_no_input_is_known(tmp_path: Path) -> None:
    path, model = tmp_path / "model.pte", Solver().eval()
    shapes = ({0: torch.export.Dim("n", max=8)},)
    report = pteron.export(model, (X,), path, dynamic_shapes=shapes)
    assert any("these values of ends ([0.0, 1.0, 4.0])" in note for note in report.notes)
    method = pteron.Runtime.get().load_program(path).load_method("forward")
    other = torch.randn(5, 3)
    torch.testing.assert_close(torch.as_tensor(method(other)), model(other))


def test_what_is_random_or_was_written_is_not_known(tmp_path: Path) -> None:
    class Decides(nn.Module):
        def __init__(self, kind: str) -> None:
            super().__init__()
            self.kind = kind

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.kind.endswith("of a gradient"):
                x = torch.func.grad(lambda x: x.square().sum())(x)
            values = torch.zeros(6)
            if self.kind == "random":
                values.uniform_()
            elif self.kind == "random numbers":
                values = values + torch.rand(6)
            elif self.kind == "item":
                values[0] = x.sum()
            elif self.kind == "view":
                part = values[2:]
                part += x.sum()
            else:
                values.view(-1, x.shape[1]).copy_(x)
            return x if values.sum() > 1 else -x

    shapes = ({1: torch.export.Dim("n", min=1, max=8)},)
    for kind in ("random", "random numbers", "item", "view", "dynamic", "dynamic, of a gradient"):
        with pytest.raises(pteron.ExportError, match="data-dependent"):
            model = Decides(kind).eval()
            pteron.export(model, (X,), tmp_path / "model.pte", dynamic_shapes=shapes)


def check_sizes(x: torch.Tensor) -> None:
    assert (x > -99).all() or (x < 99).all(), f"neither small {x.shape} nor large"


class Checks(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if (x > 400).any() or x.max() > 400:
            warnings.warn(f"large {x.shape}" if x.dim() else "large", UserWarning, stacklevel=2)
        if x.min() < -200:
            raise ValueError("small" if x.dim() else f"{x}")
        assert (x > -100).all(), "too small"
        if torch.isnan(x).any() or x.max() > 1000:
            found = f"{x.shape}"
            raise ValueError(found)
        assert mask.all() or not mask.any()
        assert not (x > 500).any() and x.min() < 500
        check_sizes(x)
        return x + 1


def test_checks_of_values_pass(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    report = pteron.export(Checks().eval(), (X, X > 0), path)
    (note,) = (note for note in report.notes if "checks values in Python" in note)
    assert note.count("test_fixed_buffers.py:") == 7
    method = pteron.Runtime.get().load_program(path).load_method("forward")
    torch.testing.assert_close(torch.as_tensor(method(-X, X > 2)), 1 - X)


class ReturnsBefore(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() < 0:
            if x.shape[0] == 2:
                return -x
            raise ValueError
        return x


class WritesOthers(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        if (x > 1).any():
            y[x > 0] = 0
        return y


class NeedsSome(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        if (x > 1).any():
            y[x > 1] = x[x > 1].max()
        return y


@pytest.mark.parametrize("kind", [ReturnsBefore, WritesOthers, NeedsSome])
def test_conditions_that_lead_elsewhere_do_not_pass(kind: Any) -> None:
    with pytest.raises(pteron.ExportError, match="data-dependent"):
        export_methods(kind().eval(), (X,))


class Splines(nn.Module):
    """As nflows, which computes splines of what is in an interval, if anything is."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        inside, y, z = (x >= 0) & (x <= 3), torch.zeros_like(x), torch.zeros_like(x)
        if torch.any(inside):
            y[inside], z[inside] = x[inside].exp(), x[inside] * 2
        if (x > 1).any():
            z[x > 1] += 1
        return y, z


def test_writes_to_elements_of_a_mask_if_it_has_some(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    assert not pteron.export(Splines().eval(), (X,), path).notes
    method = pteron.Runtime.get().load_program(path).load_method("forward")
    for x in (X, X + 100, X - 1):
        found: Any = method(x)
        torch.testing.assert_close([torch.as_tensor(each) for each in found], [*Splines()(x)])


class Kernel(nn.Module):
    """As kernels of Gaussian processes, which compare their two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def distances(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if torch.equal(a, b):
            return torch.cdist(a, a) + 100
        return torch.cdist(a, b)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        alike = self.distances(x.div(self.scale), x.div(self.scale))
        return self.distances(x, x), alike, self.distances(x, x.new_ones(2, 1, 3))


def test_a_tensor_is_equal_to_itself_and_to_what_is_computed_alike() -> None:
    model, shapes = Kernel().eval(), ({0: torch.export.Dim("n", max=8)},)
    programs, notes = export_methods(model, (X,), None, shapes)
    assert any("where they are NaN" in note for note in notes), notes
    other = torch.randn(5, 3)
    torch.testing.assert_close(programs["forward"].module()(other), model(other))


def written(x: torch.Tensor) -> torch.Tensor:
    copy = x.clone()
    copy[:1].sub_(x.sum())
    return copy


@pytest.mark.parametrize("function", [torch.sin, lambda x: x + torch.rand_like(x), written])
def test_what_may_be_equal_is_not_known(function: Any) -> None:
    class Compares(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            other = y if function is torch.sin else x.clone() if function is written else x
            first = function(x)
            return x if torch.equal(first, other if function is written else function(other)) else y

    with pytest.raises(pteron.ExportError, match="equal(.|\n)*try:  torch.where"):
        export_methods(Compares().eval(), (X, X + 1))


class OfAllSteps(nn.Module):
    """As torchcrf, whose mask is of bytes, and of ones unless it is given."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        if mask is None:
            mask = torch.ones_like(x[..., 0], dtype=torch.uint8)
        if not mask[0].all():
            raise ValueError("the first step is masked")
        return x * 2 if mask.min() > 0 else x


def test_what_depends_on_shapes_alone_is_known() -> None:
    model = OfAllSteps().eval()
    programs, notes = export_methods(model, (X,))
    torch.testing.assert_close(programs["forward"].module()(-X), -2 * X)
    assert not notes
    with pytest.raises(pteron.ExportError, match="data-dependent"):
        export_methods(model, (X, X > 0))


class Translates(nn.Module):
    """With masks that are inputs, or of a dynamic size."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 1
        )

    def forward(self, x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(y.shape[1])
        return self.decoder(y, self.encoder(x, mask), tgt_mask=causal)


def test_transformers_do_not_look_at_their_masks() -> None:
    model = Translates().eval()
    n, m = torch.export.Dim("n", max=16), torch.export.Dim("m", max=16)
    shapes = ({1: n}, {1: m}, {0: n, 1: n})
    x, y = torch.randn(2, 6, 8), torch.randn(2, 4, 8)
    masks = torch.randn(6, 6), nn.Transformer.generate_square_subsequent_mask(5)
    program = export_methods(model, (x, y, masks[0]), None, shapes)[0]["forward"].module()
    x = x[:, :5]
    with torch.no_grad():
        torch.testing.assert_close(program(x, y[:, :3], masks[1]), model(x, y[:, :3], masks[1]))


class Attributes(nn.Module):
    """As networks that pad to a product of strides, which is of numpy or a tensor and no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.strides, self.scale = numpy.array([2, 3]), torch.tensor(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        strides = torch.from_numpy(self.strides)
        x = x.repeat(int(strides[1]))
        return x * 2 if self.scale > 1 else x


class Writes(Attributes):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        strides = torch.as_tensor(self.strides.copy())
        strides[:1].add_(x.sum().long())
        return x * 2 if strides[0] > 2 else x


def test_tensors_that_are_no_buffers() -> None:
    x = torch.ones(3)
    program = export_methods(Attributes().eval(), (x,))[0]["forward"]
    torch.testing.assert_close(program.module()(x), torch.full((9,), 2.0))
    with pytest.raises(pteron.ExportError, match="data-dependent"):
        export_methods(Writes().eval(), (x,))
