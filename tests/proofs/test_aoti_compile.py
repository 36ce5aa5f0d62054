"""AOTInductor compiles inside the sandbox, and what it makes does without libtorch."""

import re
import subprocess
from pathlib import Path

import pytest
import torch
from torch._inductor import aot_compile

_OPTIONS = {
    "aot_inductor.link_libtorch": False,
    "aot_inductor.compile_wrapper_opt_level": "O0",
    # A fresh sandbox never finds a precompiled header of an earlier run.
    "aot_inductor.precompile_headers": False,
    # Don't compile and run a program to learn what this processor has.
    "cpp.vec_isa_ok": True,
}


class Scale(torch.nn.Module):
    """One pointwise kernel, so that compiling it is cheap."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1


@pytest.fixture(scope="module")
def shared_object(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("aoti")
    program = torch.export.export(Scale(), (torch.ones(4, 8),))
    options = {**_OPTIONS, "aot_inductor.output_path": str(directory / "model.so")}
    return Path(aot_compile(program.module(), (torch.ones(4, 8),), options=options))


def _readelf(flag: str, shared_object: Path) -> str:
    return subprocess.run(
        ["readelf", "--wide", flag, shared_object], capture_output=True, text=True, check=True
    ).stdout


def test_needs_no_libtorch(shared_object: Path) -> None:
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", _readelf("--dynamic", shared_object))
    assert "libc.so.6" in needed
    assert not [library for library in needed if "torch" in library or "c10" in library]


def test_imports_shims_only(shared_object: Path) -> None:
    undefined = re.findall(r" UND (\S+)", _readelf("--dyn-syms", shared_object))
    assert "aoti_torch_get_data_ptr" in undefined
    assert not [name for name in undefined if "c10" in name or "5torch" in name]
