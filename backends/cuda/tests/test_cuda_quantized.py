"""GEMMs with quantized weights, in the forms that torchao's `quantize_` exports: against the same
GEMM in double precision. All cases need a GPU."""

import pathlib
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from pteron.backends.cuda.tests.programs import ON_DEVICE, load, lower, save

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

_aten = torch.ops.aten
_IN, _OUT, _GROUP = 320, 200, 64


class Int8(nn.Module):
    """Int8WeightOnlyConfig: the scale of a channel after the GEMM."""

    def __init__(self) -> None:
        super().__init__()
        values = torch.randint(-128, 128, (_OUT, _IN), dtype=torch.int8)
        self.values = nn.Buffer(values)
        self.scale = nn.Buffer(torch.rand(_OUT) / 64)
        self.bias = nn.Buffer(torch.rand(_OUT))

    def weight(self) -> torch.Tensor:
        return self.values.double().T * self.scale.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, self.values.T.to(x.dtype)) * self.scale + self.bias


class Grouped(Int8):
    """IntxWeightOnlyConfig: scales of groups before the GEMM; zero points if `zero`."""

    def __init__(self, low: int, high: int, zero: int = 0) -> None:
        super().__init__()
        self.values = nn.Buffer(torch.randint(low, high, (_OUT, _IN), dtype=torch.int8))
        self.scale = nn.Buffer(torch.rand(_OUT, _IN // _GROUP, 1) / 8)
        self.zero = zero
        self.zeros = nn.Buffer(torch.randint(-2, 3, self.scale.shape, dtype=torch.int8))

    def weight(self) -> torch.Tensor:
        groups = self.values.view(_OUT, -1, _GROUP).double() - self.zero * self.zeros.double()
        return (groups * self.scale.double()).view(_OUT, _IN).T

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        groups = self.values.view(_OUT, -1, _GROUP).to(x.dtype)
        if self.zero:
            groups = groups - self.zeros.to(x.dtype)
        return torch.addmm(self.bias, x, (groups * self.scale).view(_OUT, _IN).T)


class Float8(Int8):
    """Float8WeightOnlyConfig."""

    def __init__(self) -> None:
        super().__init__()
        self.values = nn.Buffer(torch.randn(_OUT, _IN).to(torch.float8_e4m3fn))
        self.scale = nn.Buffer(torch.rand(_OUT, 1))

    def weight(self) -> torch.Tensor:
        return (self.values.double() * self.scale.double()).T

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x, (self.values.to(x.dtype) * self.scale).T)


class TilePacked(Int8):
    """Int4WeightOnlyConfig with int4_packing_format="tile_packed_to_4d"."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = torch.randint(0, 16, (_OUT, _IN), dtype=torch.int32)
        packed = (self.plain[:, ::2] << 4 | self.plain[:, 1::2]).to(torch.uint8).cuda()
        self.values = nn.Buffer(_aten._convert_weight_to_int4pack(packed, 2))
        self.scale = nn.Buffer(torch.randn(_IN // _GROUP, _OUT, 2) / 8)

    def weight(self) -> torch.Tensor:
        scale, zero = self.scale.double().unbind(-1)
        groups = self.plain.T.reshape(-1, _GROUP, _OUT).cuda().double() - 8
        return (groups * scale[:, None] + zero[:, None]).view(_IN, _OUT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _aten._weight_int4pack_mm(x, self.values, _GROUP, self.scale) + self.bias


def _on_gpu(module: Int8, dtype: torch.dtype) -> Int8:
    """With scales and the bias of `dtype`."""
    module.scale, module.bias = module.scale.to(dtype), module.bias.to(dtype)
    return module.cuda()


_WEIGHTS: dict[str, tuple[Callable[[], Int8], float]] = {
    # The weight's bits, with its scales, of the weight in the file.
    "int8": (Int8, 8.8),
    "int4": (lambda: Grouped(-8, 8), 4.8),
    "int4_zeros": (lambda: Grouped(-8, 8, 1), 5.4),
    "int8_zeros": (lambda: Grouped(-128, 128, 1), 9.4),
    "float8": (Float8, 8.8),
    "tile_packed": (TilePacked, 5.4),
}


@pytest.mark.parametrize("rows", [1, 7, 40, 300])
@pytest.mark.parametrize("kind", _WEIGHTS)
def test_weight_only(kind: str, rows: int, tmp_path: pathlib.Path) -> None:
    make, bits = _WEIGHTS[kind]
    torch.manual_seed(0)
    module = _on_gpu(make(), torch.bfloat16)
    x = torch.randn(rows, _IN, device="cuda").bfloat16()
    with torch.no_grad():
        manager = lower(export(module, (x,)))
        path = save(manager, tmp_path, **ON_DEVICE)
        assert "aoti_torch_cuda_quantized_mma" in str(manager.explain())
        (found,) = load(path).load_method("forward").execute([x])
        expected = x.double() @ module.weight() + module.bias.double()
    error = (found.double() - expected).norm() / expected.norm()
    assert error < 4e-3, "one rounding to bfloat16"
    weights = sum(file.stat().st_size for file in tmp_path.glob("*.ptd"))
    assert weights < bits / 8 * _IN * 208 + 4096, "columns are padded to strips of 16"


def test_dynamic_rows(tmp_path: pathlib.Path) -> None:
    """One program for few and many rows, and none."""
    torch.manual_seed(0)
    module = _on_gpu(Grouped(-8, 8), torch.float16)
    rows = Dim("rows", max=1024)
    with torch.no_grad():
        example = torch.randn(5, _IN, device="cuda").half()
        manager = lower(export(module, (example,), dynamic_shapes=({0: rows},)))
        method = load(save(manager, tmp_path, **ON_DEVICE)).load_method("forward")
        for count in (1, 8, 9, 47, 48, 1000, 2):
            x = torch.randn(count, _IN, device="cuda").half()
            expected = x.double() @ module.weight() + module.bias.double()
            (found,) = method.execute([x])
            assert (found.double() - expected).norm() / expected.norm() < 6e-4, count


class DynamicInt8(Int8):
    """Int8DynamicActivationInt8WeightConfig: each row of x has a scale."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = x.abs().amax(1, keepdim=True) / 127
        quantized = (x / scale).round().clamp(-127, 127).to(torch.int8)
        mm = torch.ops.higher_order.out_dtype(
            _aten.mm.default, torch.int32, quantized, self.values.T
        )
        return (mm.float() * scale.float() * self.scale.float()).to(x.dtype) + self.bias


class DynamicFloat8(Float8):
    """Float8DynamicActivationFloat8WeightConfig, a scale for each row or for all."""

    def __init__(self, each: bool) -> None:
        super().__init__()
        self.each = each
        self.values = nn.Buffer(torch.randn(208, _IN).to(torch.float8_e4m3fn))
        self.scale = nn.Buffer(torch.rand(208, 1) + 0.5 if each else torch.rand(1, 1) + 0.5)
        self.bias = nn.Buffer(torch.rand(208))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        top = x.abs().amax(1, keepdim=True) if self.each else x.abs().amax().view(1, 1)
        scale = top.float() / 448
        quantized = (x.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        by_column = self.scale.float().T.contiguous()
        return torch._scaled_mm(
            quantized, self.values.T, scale, by_column, self.bias, out_dtype=x.dtype
        )


@pytest.mark.parametrize("rows", [1, 40, 300])
@pytest.mark.parametrize("kind", ["int8", "float8", "float8_rows"])
def test_dynamic_activations(kind: str, rows: int, tmp_path: pathlib.Path) -> None:
    """As eager, which rounds activations likewise, and near the GEMM in double precision."""
    torch.manual_seed(0)
    made = DynamicInt8() if kind == "int8" else DynamicFloat8(kind == "float8_rows")
    module = _on_gpu(made, torch.bfloat16)
    x = torch.randn(rows, _IN, device="cuda").bfloat16()
    with torch.no_grad():
        path = save(lower(export(module, (x,))), tmp_path, **ON_DEVICE)
        (found,) = load(path).load_method("forward").execute([x])
        expected = x.double() @ module.weight() + module.bias.double()
        assert (found.double() - expected).norm() / expected.norm() < 4e-2
        if kind != "int8" or rows > 16:  # torch's own int8 matmul needs more rows
            eager = module(x).double()
            assert (found.double() - eager).norm() / eager.norm() < 6e-3


class Attention(nn.Module):
    """Three GEMMs of one operand, as query, key and value are."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(_on_gpu(Int8(), torch.bfloat16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [part(x.view(-1, _IN)) for part in self.parts]


@pytest.mark.parametrize("rows", [1, 9])
def test_gemms_of_one_operand(rows: int, tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    module, x = Attention(), torch.randn(1, rows, _IN, device="cuda").bfloat16()
    with torch.no_grad():
        path = save(lower(export(module, (x,))), tmp_path, **ON_DEVICE)
        for found, part in zip(
            load(path).load_method("forward").execute([x]), module.parts, strict=True
        ):
            expected = x[0].double() @ part.weight() + part.bias.double()
            assert (found.double() - expected).norm() / expected.norm() < 4e-3


class Bare(Int8):
    """Without a bias."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, self.values.T.to(x.dtype)) * self.scale


class Surrounded(nn.Module):
    """RMSNorm, a gated layer, and a GEMM with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.other = (_on_gpu(Bare(), torch.bfloat16) for _ in range(3))
        self.norm = nn.Buffer(torch.rand(_IN, device="cuda").bfloat16() + 0.5)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> list[torch.Tensor]:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        normed = self.norm * normed.to(x.dtype)
        gated = nn.functional.silu(self.gate(normed)) * self.up(normed)
        return [gated, residual + self.other(x)]

    def exact(self, x: torch.Tensor, residual: torch.Tensor) -> list[torch.Tensor]:
        gate, up, other = (part.weight() for part in (self.gate, self.up, self.other))
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.norm.double()
        return [nn.functional.silu(normed @ gate) * (normed @ up), residual + x @ other]


def test_what_surrounds_a_gemm_is_part_of_it(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    module = Surrounded()
    inputs = tuple(torch.randn(1, n, device="cuda").bfloat16() for n in (_IN, _OUT))
    with torch.no_grad():
        manager = lower(export(module, inputs))
        path = save(manager, tmp_path, **ON_DEVICE)
        assert str(manager.explain()).count("aoti_torch_cuda_fused_mma") >= 1
        outputs = load(path).load_method("forward").execute(list(inputs))
    for found, expected in zip(outputs, module.exact(*(x.double() for x in inputs)), strict=True):
        assert (torch.as_tensor(found).cuda().double() - expected).norm() < 1e-2 * expected.norm()
