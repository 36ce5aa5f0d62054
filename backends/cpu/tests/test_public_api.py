"""Finding the native library imports no torch."""

import subprocess
import sys


def _run(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {program}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_public_api_does_not_import_torch() -> None:
    _run(
        "import sys, pteron.backends.cpu, pteron.backends.cpu.native as native;"
        "assert native.BACKEND_ID == 'CpuBackend' and native.LIBRARY.endswith('.so');"
        "assert 'torch' not in sys.modules, 'torch is imported';"
        "assert 'CpuPartitioner' in dir(pteron.backends.cpu)"
    )


def test_the_partitioner_does_not_import_torchs_compiler() -> None:
    """It takes as long as torch itself, and lowering is where it is needed."""
    _run(
        "import sys; from pteron.backends.cpu import CpuPartitioner; CpuPartitioner();"
        "assert not {'torch._dynamo', 'torch._inductor'} & sys.modules.keys()"
    )


def test_names_are_loaded_when_they_are_used() -> None:
    import pytest

    import pteron.backends.cpu
    from pteron.backends.cpu.cpu_options import CpuOptions

    assert pteron.backends.cpu.CpuOptions is CpuOptions
    with pytest.raises(AttributeError, match="no attribute 'GpuOptions'"):
        _ = pteron.backends.cpu.GpuOptions
