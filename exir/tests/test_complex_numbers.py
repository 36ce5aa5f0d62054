"""Programs of complex numbers, in real ones: what stays complex, and that results are equal."""

import pytest
import torch
from torch import nn

from pteron.exir.operators.complex_numbers import decompose_complex_tensors
from pteron.exir.operators.decompositions import decompose

X = torch.randn(3, 4, 2)
Y = torch.randn(3, 4, 2)


class Function(nn.Module):
    """`function` of two complex tensors and a real one, of (3, 4), from real inputs."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        result = self.function(torch.view_as_complex(x), torch.view_as_complex(y), x[..., 0])
        return torch.view_as_real(result) if result.is_complex() else result


def assigned(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(a)
    out[..., :2] = b[..., 2:]
    out[1, 2:] = 1j
    out[:, 3] = b.real[:, 0]
    out[torch.tensor([0, 2]), torch.tensor([1, 0])] += a[0, :2]
    return out


def lower(module: nn.Module, *inputs: torch.Tensor, dynamic=None) -> torch.export.ExportedProgram:
    exported = torch.export.export(module, inputs, dynamic_shapes=dynamic)
    program = decompose_complex_tensors(decompose(exported, ()))
    program.graph_module.graph.lint()
    return program


def complex_values(program: torch.export.ExportedProgram) -> list[str]:
    values = ((str(node.target), node.meta.get("val")) for node in program.graph.nodes)
    return [name for name, v in values if isinstance(v, torch.Tensor) and v.is_complex()]


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, r: a * b,
        lambda a, b, r: r * b + 2 * a - (1 - 2j) * b,
        lambda a, b, r: a / b + a / r - b / 3,
        lambda a, b, r: torch.add(a, b, alpha=2) - torch.sub(a, r, alpha=3),
        lambda a, b, r: (a * b.conj()).real + a.imag,
        lambda a, b, r: torch.exp(a) - b,
        lambda a, b, r: a.abs() + b.angle(),
        lambda a, b, r: a * torch.polar(torch.ones_like(r), r),
        lambda a, b, r: a * torch.complex(r, 2 * r),
        lambda a, b, r: a @ b.mT,
        lambda a, b, r: torch.bmm(a[None], b.mT[None]),
        lambda a, b, r: a.sum() + b.sum(-1) + a.mean(0, keepdim=True).sum(),
        lambda a, b, r: torch.where(r > 0, a, b),
        lambda a, b, r: a.unsqueeze(-2).expand(3, 5, 4) * b[:, None, :],
        lambda a, b, r: a.reshape(2, 6).permute(1, 0)[1:, -1].flip(0),
        lambda a, b, r: torch.cat([a, b], -1).view(2, -1) * torch.stack([b, a], -1).view(2, -1),
        lambda a, b, r: (a.mT * b.mT).mT.view(-1),
        lambda a, b, r: a[torch.tensor([2, 0])][:, torch.tensor([1, 1])] * -b[0, 0],
        lambda a, b, r: nn.functional.pad(a, (1, 2)).squeeze(),
        lambda a, b, r: a.to(torch.complex128) * b,
        lambda a, b, r: r.to(torch.complex64) * b,
        lambda a, b, r: a.reciprocal() + b**2 - 3 / a + 1 - b,
        lambda a, b, r: torch.log(a) + torch.sqrt(b) + torch.sqrt(-a.abs() - 0j) + b.sgn(),
        lambda a, b, r: torch.zeros_like(a) + torch.ones_like(b) * torch.full_like(a, 2 - 1j),
        lambda a, b, r: torch.full((3, 4), 1j) * r + torch.zeros(4, dtype=torch.complex64),
        lambda a, b, r: assigned(a, b),
        lambda a, b, r: torch.where(a == b, a, b).masked_fill(r > 0, 1 - 2j),
        lambda a, b, r: (a != a.flip(0)) | (a / 0 * 0).isnan() | (b / 0).isinf(),
        lambda a, b, r: a.cumsum(-1) + b.roll(1, 0) + a[:, :2].repeat(1, 2),
        lambda a, b, r: a.chunk(2, 1)[1] * b.split([1, 3], -1)[0] + a.unbind(-1)[2][:, None],
    ],
)
def test_arithmetic_is_real(function) -> None:
    module = Function(function)
    program = lower(module, X, Y)
    # Inputs are real, and so is all else: a view of a view is the value.
    assert not complex_values(program)
    torch.testing.assert_close(program.module()(X, Y), module(X, Y))


def test_what_has_no_rule_stays_between_views() -> None:
    module = Function(lambda a, b, r: torch.fft.ifft(torch.fft.fft(a) * b))
    program = lower(module, X, Y)
    assert set(complex_values(program)) == {"aten.view_as_complex.default", "aten._fft_c2c.default"}
    torch.testing.assert_close(program.module()(X, Y), module(X, Y))


class Rotary(nn.Module):
    """Rotary embeddings as complex numbers: a buffer, and dynamic lengths."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(32.0), torch.randn(4))
        self.register_buffer("rotations", torch.polar(torch.ones(32, 4), angles), persistent=False)
        self.scale = nn.Parameter(torch.randn(4, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        rotated = pairs * self.rotations[: x.shape[1]].unsqueeze(0) * self.scale
        return torch.view_as_real(rotated).flatten(2).type_as(x)


def test_constants_are_real() -> None:
    module, length = Rotary().eval(), torch.export.Dim("length", min=2, max=32)
    program = lower(module, torch.randn(2, 7, 8), dynamic=({1: length},))
    assert not complex_values(program)
    tensors = [*program.state_dict.values(), *program.constants.values()]
    assert sorted(tuple(tensor.shape) for tensor in tensors) == [(4, 2), (32, 4, 2)]
    for size in (7, 12):
        x = torch.randn(2, size, 8)
        torch.testing.assert_close(program.module()(x), module(x))


class Spectrum(nn.Module):
    """A complex state, which the program changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.ones(4, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state.mul_(2)
        return x * self.state.abs()


def test_state_is_real() -> None:
    module = Spectrum()
    program = lower(module, torch.randn(4))
    assert not complex_values(program)
    assert program.state_dict["state"].shape == (4, 2)
    (spec,) = [s for s in program.graph_signature.output_specs if s.target == "state"]
    assert spec.arg.name in {node.name for node in program.graph.nodes}


def test_programs_without_complex_numbers_stay_as_they_are() -> None:
    program = torch.export.export(nn.Linear(2, 3), (torch.randn(1, 2),))
    assert decompose_complex_tensors(program) is program


class Padded(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.irfft(torch.fft.rfft(x)[..., :2], 8)


def test_dynamic_sizes_stay_dynamic() -> None:
    x = torch.randn(2, 3, 4)
    program = lower(Padded(), x, dynamic=({0: torch.export.Dim("batch", min=1, max=8)},))
    for y in (x, torch.randn(5, 3, 4)):
        torch.testing.assert_close(program.module()(y), Padded()(y))
