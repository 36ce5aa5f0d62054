"""Convolution networks lowered for CUDA, beside eager. Needs a GPU."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from pteron.backends.cuda import CudaOptions
from pteron.backends.cuda.tests.programs import ON_DEVICE, check, load, lower, save

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

#: Of the largest magnitude; what eager and ours round is different.
_TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


class Block(nn.Module):
    """Of a residual network."""

    def __init__(self, channels: int, out: int, stride: int, groups: int) -> None:
        super().__init__()
        self.narrow = nn.Conv2d(channels, out, 1, bias=False)
        self.wide = nn.Conv2d(out, out, 3, stride, padding=1, groups=groups, bias=False)
        self.back = nn.Conv2d(out, 2 * out, 1)
        self.shortcut = nn.Conv2d(channels, 2 * out, 1, stride, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (out, out, 2 * out, 2 * out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norms[0](self.narrow(x)))
        y = F.relu(self.norms[1](self.wide(y)))
        return F.relu(self.norms[2](self.back(y)) + self.norms[3](self.shortcut(x)))


class Network(nn.Module):
    def __init__(self, groups: int = 1) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 7, 2, padding=3), nn.BatchNorm2d(16)
        self.blocks = nn.Sequential(Block(16, 32, 1, groups), Block(64, 32, 2, groups))
        self.up = nn.ConvTranspose2d(64, 24, 3, stride=2)
        self.depthwise, self.out = nn.Conv2d(24, 24, 5, groups=24), nn.Conv2d(24, 5, 3)
        for norm in self.modules():
            if isinstance(norm, nn.BatchNorm2d):
                assert norm.running_mean is not None and norm.running_var is not None
                norm.running_mean.normal_()
                norm.running_var.uniform_(0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.max_pool2d(F.relu(self.norm(self.stem(x))), 3, 2, padding=1)
        y = F.silu(self.up(self.blocks(y)))
        made: torch.Tensor = self.out(F.hardswish(self.depthwise(y)))
        return made


def _model(groups: int, dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    return Network(groups).eval().cuda().to(dtype)


def _images(batch: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator("cuda").manual_seed(batch)
    return torch.randn(batch, 3, 65, 63, device="cuda", dtype=dtype, generator=generator)


def _eager(model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    with torch.no_grad(), torch.backends.cudnn.flags(allow_tf32=False):
        return [model(x).cpu()]


def _run(path: pathlib.Path, x: torch.Tensor) -> list[torch.Tensor]:
    found: list[torch.Tensor] = load(path).load_method("forward").execute([x])
    return found


@pytest.mark.parametrize("dtype", _TOLERANCE)
@pytest.mark.parametrize("groups", [1, 4])
def test_results_are_eagers(tmp_path: pathlib.Path, dtype: torch.dtype, groups: int) -> None:
    model, x = _model(groups, dtype), _images(2, dtype)
    path = save(lower(torch.export.export(model, (x,))), tmp_path, **ON_DEVICE)
    check(_run(path, x), _eager(model, x), _TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("dtype", "options", "fused"),
    [
        (torch.float16, CudaOptions(), True),
        (torch.float32, CudaOptions(), False),
        (torch.float32, CudaOptions(allow_tf32=True), True),
    ],
)
def test_what_is_fused(
    tmp_path: pathlib.Path, dtype: torch.dtype, options: CudaOptions, fused: bool
) -> None:
    """What tensor cores compute; in this network, all but the transposed and the depthwise one."""
    model, x = _model(1, dtype), _images(2, dtype)
    lowered = lower(torch.export.export(model, (x,)), options)
    assert ("aoti_torch_cuda_fused_convolution" in str(lowered.explain())) == fused
    assert "aoti_torch_cuda_convolution" in str(lowered.explain())
    tolerance = 1e-2 if options.allow_tf32 else _TOLERANCE[dtype]
    check(_run(save(lowered, tmp_path, **ON_DEVICE), x), _eager(model, x), tolerance)


def test_dynamic_batch(tmp_path: pathlib.Path) -> None:
    model = _model(1, torch.float16)
    exported = torch.export.export(
        model, (_images(2, torch.float16),), dynamic_shapes=({0: Dim("batch", min=1, max=8)},)
    )
    path = save(lower(exported), tmp_path, **ON_DEVICE)
    for batch in (2, 1, 8):
        x = _images(batch, torch.float16)
        check(_run(path, x), _eager(model, x), _TOLERANCE[torch.float16])


def test_an_output_of_another_order_stays_on_the_gpu(tmp_path: pathlib.Path) -> None:
    """The convolution computes channels last, in the memory of an output that is contiguous."""
    torch.manual_seed(0)
    model = nn.Conv2d(8, 5, 3).eval().cuda().half()
    x = torch.randn(8, 8, 256, 256, device="cuda", dtype=torch.float16)
    path = save(lower(torch.export.export(model, (x,))), tmp_path, **ON_DEVICE)
    method = load(path).load_method("forward")
    for _ in range(3):
        (found,) = method.execute([x])
        assert torch.as_tensor(found).is_contiguous()
        check([found], _eager(model, x), _TOLERANCE[torch.float16])


_WITHOUT = """
import pathlib, sys, torch
from pteron.backends.cuda.tests.programs import load
path, inputs, found = sys.argv[1:]
method = load(pathlib.Path(path)).load_method("forward")
torch.save([x.cpu() for x in method.execute([torch.load(inputs)])], found)
"""


def test_without_cudnn(tmp_path: pathlib.Path) -> None:
    """What was lowered beside cuDNN runs without it."""
    model, x = _model(4, torch.float16), _images(2, torch.float16)
    path = save(lower(torch.export.export(model, (x,))), tmp_path, **ON_DEVICE)
    arguments, found = tmp_path / "inputs.pt", tmp_path / "found.pt"
    torch.save(x, arguments)
    subprocess.run(
        [sys.executable, "-c", _WITHOUT, str(path), str(arguments), str(found)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PTERON_CUDNN": "off"},
        check=True,
    )
    check(torch.load(found), _eager(model, x), _TOLERANCE[torch.float16])
