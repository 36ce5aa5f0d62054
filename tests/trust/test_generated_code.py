"""The code of models, compiled with AddressSanitizer, run with whatever inputs by fuzz_model."""

import dataclasses
import functools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from pteron.backends.aoti import elf, toolchain
from pteron.backends.cpu import CpuOptions, CpuPartitioner
from pteron.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from tests.models import inductor_faults
from tests.models.cases import Together
from tests.models.features import FEATURES
from tests.trust import allocating_model

_RUNS = 400
# Scalars: the compiler does not check the masked loads and stores by which vectors of AVX2 and
# AVX-512 end a tensor.
_OPTIONS = CpuOptions(isa=("x86-64-v2",))


class _AndOfTheSanitizer(frozenset[str]):
    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or str(name).startswith("__asan_")


@pytest.fixture(autouse=True)
def sanitizer_is_imported(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Its functions are those of the program that loads the code, whose loader allows them."""
    compiler = toolchain.find_compiler()
    command = (*compiler.command, "-fsanitize=address", "-static-libasan", "-g1")
    sanitizing = dataclasses.replace(compiler, command=command, identity=f"{command}")
    monkeypatch.setattr(toolchain, "find_compiler", lambda: sanitizing)
    libraries, versions, functions = elf._system_imports()
    undefined = elf.undefined_symbols
    allowed = (libraries, versions, _AndOfTheSanitizer(functions))
    monkeypatch.setattr(elf, "_system_imports", lambda: allowed)
    monkeypatch.setattr(
        elf,
        "undefined_symbols",
        lambda code: tuple(n for n in undefined(code) if not n.startswith("__asan_")),
    )
    yield


def _lower(program: torch.export.ExportedProgram, path: Path) -> None:
    manager = to_edge_transform_and_lower(program, partitioner=[CpuPartitioner(_OPTIONS)])
    # This process has no sanitizer, and cannot run what it lowers.
    manager.to_executorch(ExecutorchBackendConfig(verify=False)).save(path)
    assert path.read_bytes().count(b"__asan_report_") > 0


def _fuzz(path: Path) -> str:
    """What fuzz_model says; fails if it fails."""
    # The loader compares all that is mapped, with the sanitizer's gaps between globals. fuzz_main
    # has an operator new of its own.
    asan = "detect_leaks=0:intercept_memcmp=0:alloc_dealloc_mismatch=0"
    options = {"MODEL": str(path), "ASAN_OPTIONS": asan}
    # Integers that are indices, to begin with (0, and those below 6): those of other bytes are
    # mostly none.
    seeds = [path.with_suffix(".zero"), path.with_suffix(".small")]
    for seed, value in zip(seeds, (b"\x12", bytes(range(16, 256))), strict=True):
        seed.write_bytes(value)
    limits = (
        f"-runs={_RUNS}",
        "-max_total_time=20",
        "-max_len=512",
        f"-seed_inputs={seeds[0]},{seeds[1]}",
    )
    run = subprocess.run(
        [os.environ["FUZZ_MODEL"], *limits],
        env={**os.environ, **options},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert run.returncode == 0, run.stderr[-20_000:]
    return run.stderr


def test_kinds_of_kernels(tmp_path: Path) -> None:
    """Embedding, convolution, LSTM, attention, sort, FFT, nonzero, inverse, a dynamic batch."""
    path = tmp_path / "model.pte"
    model, inputs = allocating_model.build()
    batch = torch.export.Dim("batch", min=1, max=16)
    _lower(torch.export.export(model, inputs, dynamic_shapes=({0: batch},)), path)
    assert "a run gave results" in _fuzz(path)


def _together(name: str) -> torch.export.ExportedProgram:
    # Of all but this one: its indices are right for its own inputs only.
    model = Together([c for c in getattr(inductor_faults, name) if c.name != "197895_integers"])
    return torch.export.export(model, model.inputs())


_MODELS: dict[str, Callable[[], torch.export.ExportedProgram]] = {
    **{sample.name: sample.export for sample in FEATURES},
    **{
        name.lower(): functools.partial(_together, name)
        for name in ("REDUCTIONS", "WRITES", "NUMBERS", "PRODUCTS", "CONVOLUTIONS")
    },
}


@pytest.mark.parametrize("name", _MODELS)
def test_a_model(tmp_path: Path, name: str) -> None:
    """What sample models and known faults of Inductor are compiled to."""
    path = tmp_path / "model.pte"
    _lower(_MODELS[name](), path)
    assert "a run gave results" in _fuzz(path)


class _Picks(nn.Module):
    """Rows by inputs: indices, lengths and repeats."""

    def forward(
        self, x: torch.Tensor, i: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        picked = x[i] + x.gather(0, i[:, None].expand(-1, x.shape[1]))
        return picked, x.index_add(0, i, v), torch.cumsum(v, 0), x.scatter(0, i[:, None], 1.0)


def test_indices_of_any_value(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    inputs = (torch.randn(5, 7), torch.tensor([0, 3, 4]), torch.randn(3, 7))
    _lower(torch.export.export(_Picks().eval(), inputs), path)
    assert "a run gave results" in _fuzz(path)


def test_one_element_too_many_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop over 37 elements that goes on to a 38th."""
    path = tmp_path / "model.pte"
    original = toolchain.split_kernels

    def longer(text: str) -> list[str]:
        changed = text.replace("x0<static_cast<int64_t>(37L)", "x0<static_cast<int64_t>(38L)")
        assert changed != text
        return original(changed)

    monkeypatch.setattr(toolchain, "split_kernels", longer)
    _lower(torch.export.export(nn.Softplus().eval(), (torch.randn(37),)), path)
    with pytest.raises(AssertionError, match="AddressSanitizer: heap-buffer-overflow"):
        _fuzz(path)
