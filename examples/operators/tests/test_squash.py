"""Operators of one's own: found in a library or in the program, and named if they are missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import pteron
from examples.operators.squash import Model, squash
from pteron.runtime import AccessError, NotFoundError, PteronError, Runtime

_LIBRARY = Path(os.environ["SQUASH"]).resolve()
_OPTIONS = {"cpu.operators": ["example::squash"]}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("squash") / "model.pte"
    torch.manual_seed(0)
    pteron.load_operators(_LIBRARY)
    rows = torch.export.Dim("rows", min=1, max=9)
    report = pteron.export(
        Model(),
        (torch.randn(3, 8),),
        file,
        backend="cpu",
        options=_OPTIONS,
        dynamic_shapes=({0: rows},),
    )
    assert "aoti_torch_cpu_squash" in str(report)
    return file


def test_a_library(path: Path) -> None:
    torch.manual_seed(0)
    model = Model()
    method = Runtime.get().load_program(path).load_method("forward")
    for rows in (1, 3, 9):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(method(x), model(x))


def test_linked_in(path: Path) -> None:
    run = subprocess.run([os.environ["RUN_SQUASH"], path], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    torch.manual_seed(0)
    shape, _, values = run.stdout.partition(": ")
    assert shape == "float32[9, 4]"
    expected = Model()(torch.ones(1, 8))[0]
    found = torch.tensor([float(word) for word in values.split()][:4])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_missing_in_a_program(path: Path) -> None:
    run = subprocess.run([os.environ["RUN_WITHOUT_SQUASH"], path], capture_output=True, text=True)
    assert run.returncode == 1
    assert "does not provide: aoti_torch_cpu_squash" in run.stderr


def test_missing_in_python(path: Path) -> None:
    script = (
        "import sys, pteron.runtime as runtime\n"
        "try:\n"
        f"    runtime.Runtime.get().load_program({str(path)!r}).load_method('forward')\n"
        "except runtime.PteronError as error:\n"
        "    text = str(error)\n"
        "assert 'provide: aoti_torch_cpu_squash' in text and 'load_operators' in text, text\n"
        f"runtime.load_operators({str(_LIBRARY)!r})\n"
        f"runtime.Runtime.get().load_program({str(path)!r}).load_method('forward')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_failure_fails_the_run(tmp_path: Path) -> None:
    class Doubles(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return squash(x * 2, 1.0)

    pteron.load_operators(_LIBRARY)
    config = pteron.ExecutorchBackendConfig(verify=False)
    x = torch.randn(3, dtype=torch.float64)
    file = tmp_path / "double.pte"
    pteron.export(Doubles(), (x,), file, backend="cpu", options=_OPTIONS, config=config)
    method = Runtime.get().load_program(file).load_method("forward")
    with pytest.raises(PteronError, match="squash"):
        method(x)


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    with pytest.raises((AccessError, NotFoundError), match="library of operators"):
        pteron.load_operators(tmp_path / "libmissing.so")
    model, x = Model(), (torch.randn(3, 8),)
    with pytest.raises(ValueError, match="no operator 'example::squish'"):
        options = {"cpu.operators": ["example::squish"]}
        pteron.export(model, x, tmp_path / "model.pte", backend="cpu", options=options)
    with pytest.raises(pteron.UnsupportedOperatorsError, match="squash"):
        pteron.export(model, x, tmp_path / "model.pte", backend="cpu")
