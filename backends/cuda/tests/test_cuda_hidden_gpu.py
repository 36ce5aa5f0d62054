"""Programs lowered with the GPU hidden are those lowered with it in sight. Needs a GPU."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch

from pteron.backends.aoti import inductor
from pteron.backends.cuda.tests.programs import check, eager, inputs_of, load, sample_named

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

_LOWER = """
import pathlib, sys
import torch
from pteron.backends.cuda import CudaOptions
from pteron.backends.cuda.tests.programs import lower, sample_named, save

name, architecture, folder, is_hidden = sys.argv[1:]
assert torch.cuda.is_available() == (is_hidden == "False")
program = sample_named(name).export()
save(lower(program, CudaOptions(architectures=(architecture,))), pathlib.Path(folder))
"""


def _here() -> str:
    major, minor = torch.cuda.get_device_capability()
    architecture = f"sm_{major}{minor}"
    if architecture not in inductor.GPUS:
        pytest.skip(f"the table has no {architecture}")
    return architecture


def _lowered(name: str, folder: pathlib.Path, *, is_hidden: bool) -> dict[str, bytes]:
    """The files of a sample, lowered in a process of its own that has caches of its own."""
    folder.mkdir()
    caches = folder.with_suffix(".caches")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
    }
    if is_hidden:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    subprocess.run(
        [sys.executable, "-c", _LOWER, name, _here(), str(folder), str(is_hidden)],
        env=environment,
        check=True,
    )
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize(
    "name", ["mlp_block", "conv_net", "attention", "encoder", "lstm", "selection", "kv_cache"]
)
def test_files_are_equal_and_right(name: str, tmp_path: pathlib.Path) -> None:
    hidden = _lowered(name, tmp_path / "hidden", is_hidden=True)
    seen = _lowered(name, tmp_path / "seen", is_hidden=False)
    assert hidden.keys() == seen.keys()
    assert [file for file in hidden if hidden[file] != seen[file]] == []
    sample = sample_named(name)
    found = load(tmp_path / "hidden" / "model.pte").load_method("forward")
    check(found.execute(inputs_of(sample, 0)), eager(sample, 1)[0], sample.rtol)


def test_the_table_says_what_this_gpu_says() -> None:
    gpu, here = inductor.GPUS[_here()].as_torch_properties(), torch.cuda.get_device_properties()
    for name in (
        "major",
        "minor",
        "warp_size",
        "regs_per_multiprocessor",
        "max_threads_per_multi_processor",
        "shared_memory_per_block",
        "shared_memory_per_block_optin",
        "shared_memory_per_multiprocessor",
    ):
        assert gpu[name] == getattr(here, name), name
