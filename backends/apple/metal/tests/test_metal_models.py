"""Models, lowered for Metal, run over the recording device, compared with eager."""

import dataclasses
import pathlib
import sys
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pteron.backends.apple.metal import MetalPartitioner
from pteron.backends.apple.metal.tests.programs import (
    HOST,
    check,
    load,
    lower,
    open_recording_device,
    run_and_check,
    save,
)
from tests.models.gpt import Gpt, export_methods
from tests.models.networks import AttentionBlock, MlpBlock
from tests.models.sample import randn

open_recording_device()

_HALVES = [(torch.float32, 1e-4), (torch.float16, 2e-2), (torch.bfloat16, 2e-2)]


def test_linear(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    manager = run_and_check(nn.Linear(8, 8), [(randn(0, 1, 8),), (randn(1, 1, 8),)], tmp_path)
    assert "device    metal" in str(manager.explain())
    assert f"platform  {sys.platform}-" in str(manager.explain())
    assert "executed  not on a Mac" in str(manager.explain())


@pytest.mark.parametrize(("dtype", "tolerance"), _HALVES)
def test_mlp(dtype: torch.dtype, tolerance: float, tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    module = MlpBlock(64, 128).to(dtype)
    run_and_check(module, [(randn(0, 6, 64, dtype=dtype),)], tmp_path, tolerance=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), _HALVES)
def test_attention(dtype: torch.dtype, tolerance: float, tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    module = AttentionBlock(64, 4, 128).to(dtype)
    manager = run_and_check(
        module, [(randn(0, 2, 9, 64, dtype=dtype),)], tmp_path, tolerance=tolerance
    )
    assert "1 by library" in str(manager.explain())


class ConvNet(nn.Module):
    """Convolutions with a batch norm, which goes into the weights, and with a group norm."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.GroupNorm(4, 16),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(16, 10),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class InvertedResidual(nn.Module):
    """MobileNetV2's block."""

    def __init__(self, a: int, b: int, stride: int) -> None:
        super().__init__()
        self.adds = stride == 1 and a == b
        self.layers = nn.Sequential(
            nn.Conv2d(a, 4 * a, 1, bias=False),
            nn.BatchNorm2d(4 * a),
            nn.ReLU6(),
            nn.Conv2d(4 * a, 4 * a, 3, stride, 1, groups=4 * a, bias=False),
            nn.BatchNorm2d(4 * a),
            nn.ReLU6(),
            nn.Conv2d(4 * a, b, 1, bias=False),
            nn.BatchNorm2d(b),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


class MobileNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU6(),
            InvertedResidual(8, 8, 1),
            InvertedResidual(8, 12, 2),
        )
        self.head = nn.Linear(12, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.dropout(self.layers(x).mean((2, 3)), 0.2, self.training))


class Yolo(nn.Module):
    """Split, slice, upsample and concat, as YOLO's neck and head have them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.SiLU())
        self.part = nn.Conv2d(8, 8, 3, padding=1)
        self.down = nn.Conv2d(24, 24, 3, 2, 1)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.head = nn.Conv2d(24 + 48, 12, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.stem(x)
        a, b = y.split(8, 1)
        y = torch.cat([a, b, F.silu(self.part(b))], 1)
        low = self.down(y)
        low = torch.cat([low, self.pool(low)], 1)
        out = self.head(torch.cat([y, F.interpolate(low, scale_factor=2.0)], 1)).flatten(2)
        box, score = out[:, :4].softmax(1), out[:, 4:].sigmoid()
        best, index = score.amax(1).topk(5)
        return box.gather(2, index[:, None].expand(-1, 4, -1)), best


class Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 32))
        self.places = nn.Parameter(torch.randn(1, 17, 32))
        self.block = AttentionBlock(32, 4, 64)
        self.head = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(len(x), -1, -1), y], 1) + self.places
        return self.head(self.block(y)[:, 0])


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 16, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        return self.lstm(x)


@pytest.mark.parametrize(
    ("build", "size"),
    [(ConvNet, 32), (MobileNet, 32), (Yolo, 32), (Vit, 32)],
    ids=["conv_net", "mobile_net", "yolo", "vit"],
)
def test_vision(build: type[nn.Module], size: int, tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    manager = run_and_check(build(), [(randn(s, 2, 3, size, size),) for s in (0, 1)], tmp_path)
    assert "CpuBackend" not in str(manager.explain())


def test_lstm(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    run_and_check(Lstm(), [(randn(0, 2, 4, 8),), (randn(1, 2, 4, 8),)], tmp_path)


def test_dynamic_sizes(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    batch, time = torch.export.Dim("batch", min=1, max=8), torch.export.Dim("time", min=2, max=64)
    run_and_check(
        AttentionBlock(32, 2, 64),
        [(randn(b, b, t, 32),) for b, t in ((3, 7), (1, 2), (8, 64), (5, 33))],
        tmp_path,
        dynamic_shapes=({0: batch, 1: time},),
    )


def test_a_decoder_in_two_methods_keeps_its_cache_and_shares_its_weights(
    tmp_path: pathlib.Path,
) -> None:
    torch.manual_seed(0)
    gpt = Gpt(layers=2, width=32, heads=2, length=64, vocabulary=50).eval()
    manager = lower(export_methods(gpt))
    program = load(save(manager, tmp_path))
    session = program.session()
    prefill = program.load_method("prefill", session=session)
    decode = program.load_method("decode", session=session)
    ids = torch.randint(0, 50, (1, 12), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        prompt = ids[:, :6].contiguous()
        check(prefill.execute([prompt]), gpt(prompt, torch.arange(6)))
        for step in range(6, 12):
            token, position = ids[:, step : step + 1].contiguous(), torch.tensor([step])
            check(decode.execute([token, position]), gpt(token, position))
    weight = max(gpt.parameters(), key=torch.numel).detach().numpy().tobytes()
    assert (tmp_path / "model.pte").read_bytes().count(weight) == 1


class Lists(nn.Module):
    """What Inductor leaves to the library beside products, convolutions and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.EmbeddingBag(20, 6, mode="mean")

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows = self.bags(ids)
        places = torch.bucketize(x, x[0].sort().values)
        return (
            torch.cdist(rows, rows),
            places,
            x.median(1).values,
            x.kthvalue(2, 0).indices,
            torch.histc(x, 5, -2.0, 2.0),
            torch.view_as_real(torch.fft.rfft(x)),
            x.masked_scatter(x > 0, -x),
        )


def test_operators_of_the_library(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    ids = torch.randint(0, 20, (4, 3), generator=torch.Generator().manual_seed(1))
    manager = run_and_check(Lists(), [(randn(s, 4, 9), ids) for s in (0, 1)], tmp_path)
    assert "CpuBackend" not in str(manager.explain())


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: y.sin() * 2, lambda y: y - 1, (x,))


def test_branches(tmp_path: pathlib.Path) -> None:
    run_and_check(Branches(), [(torch.ones(3, 4),), (-torch.ones(3, 4),)], tmp_path)


def test_weights_in_a_file_of_their_own(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    options = dataclasses.replace(HOST, save_data_externally=True)
    module = nn.Linear(64, 64)
    run_and_check(module, [(randn(0, 2, 64),)], tmp_path, partitioner=[MetalPartitioner(options)])
    assert (tmp_path / "aoti_metal_blob.ptd").exists()
