"""Complex tensors as inputs, outputs, constants, parameters and state, and between delegates."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import pteron
from pteron.runtime import Method, PteronError, Runtime


def complex_of(*sizes: int, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    return torch.randn(sizes, dtype=dtype)


def exported(tmp_path: Path, model: nn.Module, *args: Any, **options: Any) -> Method:
    path = tmp_path / "model.pte"
    pteron.export(model.eval(), args, path, **options)
    return Runtime.get().load_program(path).load_method("forward")


class Arithmetic(nn.Module):
    def forward(self, z: torch.Tensor, w: torch.Tensor) -> Any:
        return z + w, z * w.conj(), z.sum(), z / w, torch.exp(z), z.real - w.imag, (z * w).abs()


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_inputs_and_outputs(tmp_path: Path, dtype: torch.dtype) -> None:
    model = Arithmetic()
    rows = Dim("rows", min=1, max=9)
    example = complex_of(4, 3, dtype=dtype), complex_of(dtype=dtype)
    method = exported(tmp_path, model, *example, dynamic_shapes=({0: rows}, None))
    for size in (1, 4, 9):
        z, w = complex_of(size, 3, dtype=dtype), complex_of(dtype=dtype)
        torch.testing.assert_close(method(z, w), model(z, w))
        # Strided, and with the conjugate bit, which the memory does not show.
        torch.testing.assert_close(
            method(z.t().contiguous().t().conj(), w.conj()), model(z.conj(), w.conj())
        )
        # numpy's arrays: the buffer protocol.
        found = method.execute([z.numpy(), w.numpy()])
        for array, tensor in zip(found, model(z, w), strict=True):
            torch.testing.assert_close(torch.as_tensor(array), tensor)
    with pytest.raises(PteronError, match=f"it is float32, expected {str(dtype)[6:]}"):
        method(torch.randn(4, 3), complex_of(dtype=dtype))


def test_arrays_are_complex_without_torch(tmp_path: Path) -> None:
    exported(tmp_path, Arithmetic(), complex_of(2), complex_of())
    script = (
        "import sys, numpy as np, pteron.runtime as runtime\n"
        f"m = runtime.Runtime.get().load_program({str(tmp_path / 'model.pte')!r})"
        ".load_method('forward')\n"
        "z, w = np.array([1 + 2j, 3 - 1j], np.complex64), np.array(2j, np.complex64)\n"
        "found = m.execute([z, w])\n"
        "assert found[1].dtype == np.complex64 and 'torch' not in sys.modules\n"
        "np.testing.assert_allclose(found[1], z * w.conj(), rtol=1e-6)\n"
    )
    import subprocess
    import sys

    subprocess.run([sys.executable, "-c", script], check=True)


class Turns(nn.Module):
    """State, a parameter, and constants, of which one is returned."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.ones(4, dtype=torch.complex64) * 1j)
        self.register_buffer("turns", torch.polar(torch.ones(4), torch.arange(4.0)))
        self.scale = nn.Parameter(complex_of(4))

    def forward(self, x: torch.Tensor) -> Any:
        self.state.mul_(self.turns)
        return x * self.state * self.scale, self.turns


def test_state_and_constants(tmp_path: Path) -> None:
    model = Turns().eval()
    method = exported(tmp_path, model, torch.randn(4))
    for _ in range(3):
        x = torch.randn(4)
        torch.testing.assert_close(method(x), model(x))
    method.reset_state()
    torch.testing.assert_close(method(x)[0], x * 1j * model.turns * model.scale)


class Parts(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        z = torch.fft.fft(x) * 2
        return torch.fft.ifft(z.cos() if z.is_floating_point() else z * z), z


def test_between_delegates(tmp_path: Path) -> None:
    path, x = tmp_path / "model.pte", torch.randn(3, 8)
    options = pteron.CpuPartitioner(leave_out=["aten._fft_c2c.default"])
    program = pteron.to_edge_transform_and_lower(
        torch.export.export(Parts(), (x,)), partitioner=[options]
    ).to_executorch()
    program.save(path)
    found = Runtime.get().load_program(path).load_method("forward").execute([x])
    torch.testing.assert_close([torch.as_tensor(y) for y in found], [*Parts()(x)])


class FourierOperator(nn.Module):
    """A layer of a Fourier neural operator."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs = nn.Parameter(torch.randn(4, 4, 3, 3, 2) * 0.1)
        self.weight = nn.Parameter(complex_of(4, 4, 3, 3) * 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = torch.fft.rfft2(x)
        out = torch.zeros_like(z)
        low = torch.view_as_complex(self.pairs)
        out[..., :3, :3] = torch.einsum("bixy,ioxy->boxy", z[..., :3, :3], low)
        out[..., -3:, :3] = torch.einsum("bixy,ioxy->boxy", z[..., -3:, :3], self.weight)
        return torch.fft.irfft2(out, s=x.shape[-2:])


def test_fourier_operator(tmp_path: Path) -> None:
    model, x = FourierOperator().eval(), torch.randn(2, 4, 12, 12)
    method = exported(tmp_path, model, x)
    torch.testing.assert_close(method(x), model(x))


class Spectrogram(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stft(x, 64, 16, window=self.window, return_complex=True)


def test_spectrogram_is_complex(tmp_path: Path) -> None:
    model = Spectrogram()
    method = exported(tmp_path, model, torch.randn(2, 400))
    x = torch.randn(2, 400)
    torch.testing.assert_close(method(x), model(x), rtol=1e-4, atol=1e-5)
    assert isinstance(np.asarray(method.execute([x.numpy()])[0]).flat[0], np.complex64)


class Strides(nn.Module):
    """Results that are not contiguous, of an input too."""

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> Any:
        return torch.fft.rfft(x).t(), z.t(), (z + 1)[:, ::2], (z * 2)[:, None].expand(4, 3, 6)


def test_strides(tmp_path: Path) -> None:
    model, x, z = Strides(), torch.randn(4, 10), complex_of(4, 6)
    method = exported(tmp_path, model, x, z)
    torch.testing.assert_close(method(x, z), model(x, z))
