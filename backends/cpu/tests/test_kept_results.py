"""Nothing is compiled twice: partitions that were lowered before, with equal or other weights."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pteron.backends.aoti import inductor, toolchain
from pteron.backends.aoti.object_cache import ObjectCache
from pteron.backends.cpu import CpuOptions, CpuPartitioner
from pteron.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from pteron.runtime import Runtime


class Net(nn.Module):
    """Folded batch norms, packed convolutions and matmuls, a bias of few elements, tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.first, self.last = nn.Linear(16, 64), nn.Linear(64, 3)
        self.back = nn.Linear(64, 16, bias=False)
        self.back.weight = nn.Parameter(self.first.weight.detach().t())
        self.register_buffer("positions", torch.linspace(0, 1, 64), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(x)).relu().mean((2, 3))
        x = self.back(self.first(x) + self.positions) + x
        return self.last(self.first(x).tanh())


class Masked(nn.Module):
    """Lowering looks at the mask, a weight: attention that is causal needs none."""

    def __init__(self, is_causal: bool) -> None:
        super().__init__()
        mask = torch.ones(8, 8, dtype=torch.bool)
        self.register_buffer("mask", mask.tril() if is_causal else mask.tril(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x, self.get_buffer("mask"))


class Biased(nn.Module):
    """Lowering looks at the bias of attention, made of weights and of tensors on a device."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        order = torch.arange(8, device=x.device)
        bias = self.table((order[None] - order[:, None]).abs()).permute(2, 0, 1)
        return nn.functional.scaled_dot_product_attention(x, x, x, bias[None])


IMAGE = torch.randn(2, 3, 8, 8)


def net(seed: int) -> Net:
    torch.manual_seed(seed)
    model = Net().eval()
    for value in model.state_dict().values():
        if value.is_floating_point():
            value.copy_(torch.rand_like(value) / 4 + 0.05)
    return model


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Inductor's calls."""
    calls: list[Any] = []
    generate = inductor.generate_variants

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return generate(*args, **kwargs)

    monkeypatch.setattr(inductor, "generate_variants", counted)
    return calls


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectCache:
    """An empty cache for results; objects are still those of the user's."""
    kept = ObjectCache(tmp_path / "kept", 1 << 30)
    user = toolchain.shared_cache()
    monkeypatch.setattr(kept, "get", user.get)
    monkeypatch.setattr(toolchain, "shared_cache", lambda: kept)
    return kept


def lower(
    model: nn.Module | dict[str, nn.Module], x: torch.Tensor = IMAGE, **options: Any
) -> bytes:
    models = model if isinstance(model, dict) else {"forward": model}
    programs = {name: torch.export.export(each.eval(), (x,)) for name, each in models.items()}
    partitioner = CpuPartitioner(CpuOptions(**options))
    edge = to_edge_transform_and_lower(programs, partitioner=partitioner)
    return edge.to_executorch(ExecutorchBackendConfig(verify=False)).buffer


def check(program: bytes, model: nn.Module, x: torch.Tensor = IMAGE) -> None:
    with torch.no_grad():
        expected = model(x)
    result = Runtime.get().load_program(program).load_method("forward")(x)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "options", [{}, {"weights": "shared"}, {"save_data_externally": True}], ids=str
)
def test_the_same_program_again(
    cache: ObjectCache, generated: list[Any], options: dict[str, Any]
) -> None:
    first = lower(net(0), **options)
    assert len(generated) == 1
    assert lower(net(0), **options) == first
    assert len(generated) == 1


def test_other_weights_are_packed_and_folded_as_by_a_new_lowering(
    cache: ObjectCache, generated: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lower(net(0))
    reused = lower(net(1))
    assert len(generated) == 1
    check(reused, net(1))
    monkeypatch.setattr(cache, "folder", tmp_path / "empty")
    assert lower(net(1)) == reused
    assert len(generated) == 2


def test_tensors_that_are_made_on_a_device(cache: ObjectCache, generated: list[Any]) -> None:
    x = torch.randn(1, 2, 8, 8)
    for seed in (0, 1):
        torch.manual_seed(seed)
        model = Biased()
        check(lower(model, x), model, x)
    assert len(generated) == 1


@pytest.mark.parametrize(
    "changed",
    [{"isa": "x86-64-v3"}, {"num_threads": 1}, {"gemm": "template"}, {"weights": "shared"}],
    ids=str,
)
def test_other_options_are_lowered(
    cache: ObjectCache, generated: list[Any], changed: dict[str, Any]
) -> None:
    lower(nn.Linear(16, 4), torch.ones(2, 16))
    lower(nn.Linear(16, 4), torch.ones(2, 16), **changed)
    assert len(generated) == 2


def test_decisions_that_weights_made_are_made_again(
    cache: ObjectCache, generated: list[Any]
) -> None:
    x = torch.randn(1, 2, 8, 16)
    for _ in range(2):
        for is_causal in (True, False):
            check(lower(Masked(is_causal), x), Masked(is_causal), x)
    assert len(generated) == 2


def test_a_second_method_with_an_equal_partition(cache: ObjectCache, generated: list[Any]) -> None:
    lower({"forward": net(0), "other": net(1)}, weights="packed")
    assert len(generated) == 1


@pytest.mark.parametrize("damage", [b"", b"\0", None], ids=["emptied", "other bytes", "no digest"])
def test_damaged_results_are_made_again(
    cache: ObjectCache, generated: list[Any], damage: bytes | None
) -> None:
    first = lower(nn.Linear(16, 4), torch.ones(2, 16))
    (path,) = cache.folder.rglob("*.lowered")
    if damage is None:
        path.with_name(path.name + ".sha256").unlink()
    else:
        data = path.read_bytes()
        path.write_bytes(data[:-1] + damage if damage else damage)
    torch.manual_seed(0)
    again = lower(nn.Linear(16, 4), torch.ones(2, 16))
    assert len(generated) == 2 and len(first) == len(again)
    lower(nn.Linear(16, 4), torch.ones(2, 16))
    assert len(generated) == 2


def test_warnings_come_again(
    cache: ObjectCache,
    generated: list[Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generate = inductor.generate_variants

    def warn(*args: Any, **kwargs: Any) -> Any:
        logging.getLogger("pteron.backends.aoti.inductor").warning("a loop of %d", 7)
        return generate(*args, **kwargs)

    monkeypatch.setattr(inductor, "generate_variants", warn)
    for _ in range(2):
        caplog.clear()
        lower(nn.Tanh(), torch.ones(4, 4))
        assert caplog.messages.count("a loop of 7") == 1
    assert len(generated) == 1


def test_other_processes(tmp_path: Path) -> None:
    def run(seed: int) -> tuple[bytes, bool]:
        done = subprocess.run(
            [sys.executable, __file__, str(seed)],
            env={
                **os.environ,
                "PTERON_CACHE_DIR": str(tmp_path),
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout, done.stderr.decode().split()[-1] == "True"

    first, has_inductor = run(0)
    assert has_inductor
    assert run(0) == (first, False)
    other, has_inductor = run(1)
    assert not has_inductor and other != first
    for path in tmp_path.rglob("*.lowered"):
        path.unlink()  # objects stay
    assert run(1) == (other, True)


if __name__ == "__main__":
    sys.stdout.buffer.write(lower(net(int(sys.argv[1]))))
    print("torch._inductor.lowering" in sys.modules, file=sys.stderr)
