"""Shared objects for several GPU architectures. Needs a GPU, and fatbinary of the CUDA toolkit."""

import pathlib
import re
import shutil
import subprocess
from typing import Any

import pytest
import torch

from pteron.backends.aoti import inductor
from pteron.backends.cuda import CudaBackend, CudaOptions
from pteron.backends.cuda.tests.programs import (
    check,
    eager,
    inputs_of,
    load,
    lower,
    sample_named,
    save,
)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def _here() -> str:
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def _other() -> str:
    return "sm_80" if _here() != "sm_80" else "sm_90"


def _architectures(code: bytes, folder: pathlib.Path) -> set[str]:
    """What a fat binary has machine code for, as the toolkit's cuobjdump sees it."""
    cuobjdump = shutil.which("cuobjdump") or "/usr/local/cuda/bin/cuobjdump"
    path = folder / "kernel.fatbin"
    path.write_bytes(code)
    listed = subprocess.run([cuobjdump, "--list-elf", str(path)], capture_output=True, text=True)
    return set(re.findall(r"\.(sm_\d+)a?\.cubin", listed.stdout))


@pytest.mark.parametrize("gemm", ["cublas", "triton"])
def test_every_kernel_has_code_for_each(gemm: str, tmp_path: pathlib.Path) -> None:
    options = CudaOptions(gemm=gemm, architectures=(_other(),))
    program = sample_named("mlp_block").export().run_decompositions({})
    code = inductor.generate(
        CudaBackend._prepare(program, options),
        CudaBackend.get_build_target(options).code,
        CudaBackend.get_aoti_compile_options(options),
    )
    assert code.embedded
    for name, kernel in code.embedded.items():
        assert _architectures(kernel, tmp_path) == {_here(), _other()}, name


def test_a_program_for_two_runs_here(tmp_path: pathlib.Path) -> None:
    sample = sample_named("attention")
    manager = lower(sample.export(), CudaOptions(architectures=(_other(),)))
    found = load(save(manager, tmp_path)).load_method("forward").execute(inputs_of(sample, 0))
    check(found, eager(sample, 1)[0], sample.rtol)


def test_an_architecture_that_kernels_are_not_compiled_for_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import triton

    compile_kernel = triton.compile

    def compile_here(source: Any, target: Any = None, **options: Any) -> Any:
        if target is not None and f"sm_{target.arch}" == _other():
            raise RuntimeError("too much shared memory")
        return compile_kernel(source, target=target, **options)

    monkeypatch.setattr(triton, "compile", compile_here)
    message = f"{_other()}: triton_.* fails: too much shared memory"
    with pytest.raises(inductor.UnsupportedArchitecture, match=message):
        lower(sample_named("linear").export(), CudaOptions(architectures=(_other(),)))
