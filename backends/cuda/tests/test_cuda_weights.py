"""Weights of methods exported on the GPU, in the file and on the device. Needs a GPU of its own."""

import gc
import pathlib
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from pteron.backends.cuda import CudaOptions
from pteron.backends.cuda.tests.programs import check, data_of, load, lower, save

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

_WIDTH, _LAYERS, _WORDS = 512, 12, 4000
_IDS = {"prefill": torch.arange(20).reshape(1, 20), "decode": torch.tensor([[7]])}


class _Layer(nn.Module):
    """Gated and added; its norm and the last bias are too small for blobs of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(_WIDTH)
        self.gate, self.up = (nn.Linear(_WIDTH, 2 * _WIDTH) for _ in range(2))
        self.down = nn.Linear(2 * _WIDTH, _WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))


class _Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(_WORDS, _WIDTH)
        self.layers = nn.ModuleList(_Layer() for _ in range(_LAYERS))
        self.head = nn.Linear(_WIDTH, _WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, -1])


class _Backwards(nn.Module):
    """The same model, whose layers are read in another order."""

    def __init__(self, model: _Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.model.words(ids)
        for layer in reversed(self.model.layers):
            x = layer(x)
        return self.model.head(x[:, -1])


def _nbytes(module: nn.Module) -> int:
    return sum(p.numel() * p.element_size() for p in module.parameters())


def _free_bytes() -> int:
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()[0]


@pytest.fixture(scope="module")
def models() -> dict[str, nn.Module]:
    torch.manual_seed(5)
    model = _Model().eval().cuda()
    return {"prefill": model, "decode": _Backwards(model)}


def _lower(models: dict[str, nn.Module], options: CudaOptions) -> Any:
    ids = torch.zeros(1, 8, dtype=torch.int64, device="cuda")
    with torch.no_grad():
        time = Dim("time", min=2, max=64)
        programs = {
            "prefill": export(models["prefill"], (ids,), dynamic_shapes=({1: time},)),
            "decode": export(models["decode"], (ids[:, :1],)),
        }
    return lower(programs, options)


@pytest.fixture(scope="module")
def shared(models: dict[str, nn.Module], tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    manager = _lower(models, CudaOptions())
    assert "shared, " in str(manager.explain())
    return save(manager, tmp_path_factory.mktemp("shared"), verify=False)


@pytest.fixture(scope="module")
def expected(models: dict[str, nn.Module]) -> dict[str, torch.Tensor]:
    """Eager's outputs, before memory is counted: eager keeps some for good."""
    with torch.no_grad():
        return {name: model(_IDS[name].cuda()).cpu() for name, model in models.items()}


def test_the_file_has_them_once(models: dict[str, nn.Module], shared: pathlib.Path) -> None:
    (data,) = data_of(shared)
    nbytes = _nbytes(models["prefill"])
    assert 0.98 * nbytes < data.stat().st_size < 1.02 * nbytes


def test_the_device_has_them_once(
    models: dict[str, nn.Module], expected: dict[str, torch.Tensor], shared: pathlib.Path
) -> None:
    nbytes = _nbytes(models["prefill"])
    load(shared).load_method("prefill").execute([_IDS["prefill"]])  # makes handles, which stay
    start = _free_bytes()
    program = load(shared)
    prefill = program.load_method("prefill")
    with_one = _free_bytes()
    assert start - with_one > 0.9 * nbytes
    decode = program.load_method("decode")
    assert with_one - _free_bytes() < 0.2 * nbytes
    check(prefill.execute([_IDS["prefill"]]), [expected["prefill"]], 1e-4)
    del prefill
    check(decode.execute([_IDS["decode"]]), [expected["decode"]], 1e-4)
    del decode, program
    assert start - _free_bytes() < 0.1 * nbytes


def test_one_blob_a_partition_for_other_readers(
    models: dict[str, nn.Module], expected: dict[str, torch.Tensor], tmp_path: pathlib.Path
) -> None:
    manager = _lower(models, CudaOptions(weights="one_blob"))
    assert "one_blob, " in str(manager.explain())
    path = save(manager, tmp_path, verify=False)
    nbytes = _nbytes(models["prefill"])
    start = _free_bytes()
    program = load(path)
    methods = {name: program.load_method(name) for name in _IDS}
    # On the device they are shared all the same.
    assert start - _free_bytes() < 1.4 * nbytes
    for name, method in methods.items():
        check(method.execute([_IDS[name]]), [expected[name]], 1e-4)
