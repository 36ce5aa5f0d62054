"""Programs of earlier dates load, and compute what they did."""

import hashlib
import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pteron.runtime import PteronError, Runtime, Verification

FILES = Path(__file__).parent / "files"
PROGRAMS = sorted(FILES.glob("*/*.pte"))
_NAMES = [f"{path.parent.name}/{path.stem}" for path in PROGRAMS]


def _load(path: Path) -> Any:
    data = sorted(path.parent.glob(f"{path.stem}*.ptd"))
    return Runtime.get().load_program(path, data_path=data, verification=Verification.Required)


def _obstacle(backend: str) -> str:
    return Runtime.get().backend_registry.obstacle(backend)


def test_no_file_has_changed() -> None:
    """They are never written again."""
    lines = (FILES / "SHA256SUMS").read_text().splitlines()
    expected = {name: digest for digest, name in (line.split("  ") for line in lines)}
    found = {
        str(path.relative_to(FILES)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in FILES.glob("*/*")
    }
    assert found == expected
    assert len(PROGRAMS) >= 7


@pytest.mark.parametrize("path", PROGRAMS, ids=_NAMES)
def test_a_program_loads_and_is_described(path: Path) -> None:
    program = _load(path)
    assert "forward" in program.method_names
    (backend,) = program.metadata("forward").backends()
    text = program.describe()
    assert backend in text
    # A backend that is not here does not describe its delegates.
    here = backend in Runtime.get().backend_registry.registered_backend_names
    assert here == ("torch     2." in text)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="their code is of x86-64")
@pytest.mark.parametrize(
    "path", [path for path in PROGRAMS if path.with_suffix(".npz").exists()], ids=lambda p: p.stem
)
def test_it_computes_what_it_did(path: Path) -> None:
    program = _load(path)
    (backend,) = program.metadata("forward").backends()
    if backend == "CudaBackend" and (obstacle := _obstacle(backend)):
        pytest.skip(obstacle)
    method = program.load_method("forward")
    arrays = dict(np.load(path.with_suffix(".npz")))
    calls = 1 + max(int(key.split("/")[0]) for key in arrays)
    for call in range(calls):
        inputs = [array for key, array in arrays.items() if key.startswith(f"{call}/in/")]
        outputs = [array for key, array in arrays.items() if key.startswith(f"{call}/out/")]
        found = [np.from_dlpack(value) for value in method.execute(inputs)]
        assert len(found) == len(outputs) > 0
        for value, expected in zip(found, outputs, strict=True):
            assert (value.dtype, value.shape) == (expected.dtype, expected.shape)
            if expected.dtype.kind == "f":  # the order of a sum depends on the machine's vectors
                np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(value, expected)


def test_code_for_another_device_is_refused_with_its_reason() -> None:
    program = _load(FILES / "2026-11-26/cuda.pte")
    assert program.metadata("forward").backends() == ["CudaBackend"]
    if _obstacle("CudaBackend"):
        with pytest.raises(PteronError, match="CudaBackend"):
            program.load_method("forward")
    else:
        assert program.load_method("forward").metadata.num_inputs() == 2


def test_constants_of_methods() -> None:
    program = _load(FILES / "2026-11-26/layers.pte")
    assert program.load_method("labels")() == ["a", "b", "c"]
    assert program.load_method("mean")() == 0.5
