"""Choices of tuning are recorded with the program and made again from the record. Needs a GPU."""

import dataclasses
import json
import logging
import pathlib
import re
import time
from collections.abc import Callable

import pytest
import torch

from pteron.backends.cuda import AutotuneRecord, CudaOptions
from pteron.backends.cuda.tests.programs import (
    check,
    eager,
    inputs_of,
    load,
    lower,
    sample_named,
    save,
)
from pteron.exir._serialize.program_file import deserialize_program

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

_SAMPLE = sample_named("mlp_block")


def _lowered(folder: pathlib.Path, **options: str) -> pathlib.Path:
    folder.mkdir()
    return save(lower(_SAMPLE.export(), CudaOptions(gemm="best", **options)), folder)


def _shared_object(path: pathlib.Path) -> str:
    """The digest of the compiled code, device code included."""
    named = deserialize_program(path.read_bytes()).named_data
    (key,) = (key for key in named if key.endswith("_so_blob"))
    return key


def _difference(a: pathlib.Path, b: pathlib.Path) -> list[bytes]:
    """Texts that are in one shared object only."""
    texts = [
        set(
            re.findall(
                rb"[ -~]{8,}",
                bytes(deserialize_program(p.read_bytes()).named_data[_shared_object(p)]),
            )
        )
        for p in (a, b)
    ]
    return sorted(texts[0] ^ texts[1])[:20]


def _calls_cublas(path: pathlib.Path) -> bool:
    named = deserialize_program(path.read_bytes()).named_data
    return b"torch_cuda_addmm_out" in bytes(named[_shared_object(path)])


def _with_cublas_time(record: AutotuneRecord, milliseconds: float) -> AutotuneRecord:
    """The record as if every product by cuBLAS had taken so long."""
    files = dict(record.files)
    for name in files:
        if name.startswith("cache/"):
            table = json.loads(files[name])
            for by_input in table["cache"].values():
                for by_precision in by_input.values():
                    for times in by_precision.values():
                        for choice in times:
                            if not choice.startswith("triton"):
                                times[choice] = milliseconds
            files[name] = json.dumps(table)
    return dataclasses.replace(record, files=files)


def test_a_record_gives_the_same_kernels(
    tmp_path: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
    record_property: Callable[[str, object], None],
) -> None:
    first = _lowered(tmp_path / "first", autotune="kernels")
    record = AutotuneRecord.of_program(first)
    assert any(name.startswith("cache/") for name in record.files)
    record_property("record", f"{len(record.files)} files, {len(record.to_json())} bytes")
    with caplog.at_level(logging.WARNING, "pteron.backends.cuda"):
        start = time.perf_counter()
        again = _lowered(tmp_path / "again", autotune="kernels", autotune_record=record.to_json())
        record_property("replayed_s", round(time.perf_counter() - start, 1))
    assert not [line for line in caplog.messages if "does not cover" in line]
    assert _shared_object(again) == _shared_object(first), _difference(again, first)
    assert AutotuneRecord.of_program(again) == record
    found = load(again).load_method("forward").execute(inputs_of(_SAMPLE, 0))
    check(found, eager(_SAMPLE, 1)[0], _SAMPLE.rtol)


def test_the_record_decides_and_not_the_clock(tmp_path: pathlib.Path) -> None:
    record = AutotuneRecord.of_program(_lowered(tmp_path / "first"))
    for milliseconds, cublas in ((0.0, True), (1e9, False)):
        altered = _with_cublas_time(record, milliseconds).to_json()
        path = _lowered(tmp_path / f"cublas_{cublas}", autotune_record=altered)
        assert _calls_cublas(path) == cublas


def test_a_record_of_another_machine_is_refused(tmp_path: pathlib.Path) -> None:
    record = AutotuneRecord({"torch": "1.0", "triton": "1.0", "gpu": "another"}, {})
    with pytest.raises(ValueError, match="made with gpu another, torch 1.0.*; here are gpu"):
        _lowered(tmp_path / "refused", autotune_record=record.to_json())


@pytest.mark.parametrize("gemm", ["cublas", "triton"])
@pytest.mark.parametrize("allow_tf32", [False, True])
def test_tf32_is_the_options_to_choose(tmp_path: pathlib.Path, gemm: str, allow_tf32: bool) -> None:
    """Whatever the process that lowers has chosen for itself."""
    torch.manual_seed(0)
    module, x = torch.nn.Linear(512, 512).eval().cuda(), torch.randn(256, 512, device="cuda")
    chosen = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if allow_tf32 else "high")
    try:
        options = CudaOptions(gemm=gemm, allow_tf32=allow_tf32)
        path = save(lower(torch.export.export(module, (x,)), options), tmp_path)
    finally:
        torch.set_float32_matmul_precision(chosen)
    (found,) = load(path).load_method("forward").execute([x.cpu()])
    with torch.no_grad():
        exact = module.double()(x.double()).cpu()
    error = float((found.double() - exact).norm() / exact.norm())
    assert (error > 5e-5) == allow_tf32, f"relative error {error:.1e}"
    assert error < 1e-3
