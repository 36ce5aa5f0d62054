"""The runtime in processes where torch, or numpy too, cannot be imported."""

import os
import pathlib
import subprocess
import sys

import pytest

from pteron.runtime.tests.program_builder import copy_program

_BLOCK = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError("blocked: " + name)

sys.meta_path.insert(0, Blocker())
"""

_RUN = """
from pteron.runtime import Runtime
method = Runtime.get().load_program({path!r}).load_method("forward")
"""


def run(script: str, *blocked: str) -> str:
    """The output of a fresh interpreter that cannot import what is blocked."""
    code = _BLOCK.format(blocked=blocked) + script
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def program(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "model.pte"
    path.write_bytes(copy_program())
    return str(path)


def test_numpy_without_torch(program: str) -> None:
    script = (
        _RUN.format(path=program)
        + """
import numpy as np
x = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
(y,) = method.execute([x])
assert isinstance(y, np.ndarray), type(y)
print(y.tolist())
"""
    )
    assert run(script, "torch").strip() == "[[-1.0, 2.0, -3.0], [4.0, -5.0, 6.0]]"


def test_a_free_threaded_python_is_refused() -> None:
    script = """
import sys
sys.abiflags += "t"
try:
    from pteron.runtime import Runtime
except ImportError as error:
    print(error, any("_native" in name for name in sys.modules))
"""
    text = run(script)
    assert "is free-threaded" in text and "regular build" in text
    assert text.endswith(" False\n")


def test_nothing_but_the_standard_library(program: str) -> None:
    script = (
        _RUN.format(path=program)
        + """
import array, struct
x = memoryview(array.array("f", [-1, 2, -3, 4, -5, 6])).cast("B").cast("f", (2, 3))
(y,) = method.execute([x])
print(type(y).__name__, y.shape, y.dtype, struct.unpack("6f", y.tobytes()))
"""
    )
    expected = "DlpackArray (2, 3) float32 (-1.0, 2.0, -3.0, 4.0, -5.0, 6.0)"
    assert run(script, "torch", "numpy").strip() == expected


def test_the_import_brings_in_neither(program: str) -> None:
    script = (
        _RUN.format(path=program)
        + """
heavy = {"torch", "numpy", "json", "dataclasses", "typing", "ctypes"} & set(sys.modules)
print(sorted(heavy))
"""
    )
    assert run("from pteron import runtime; " + script).strip() == "[]"


def test_the_import_is_quick() -> None:
    script = """
import time
start = time.process_time()
from pteron.runtime import Runtime
Runtime.get()
print(time.process_time() - start)
"""
    # The least of several processes: others may keep the machine busy.
    seconds = min(float(run(script)) for _ in range(5))
    assert seconds < 0.05


def test_torch_that_is_loaded_later_is_used(program: str) -> None:
    script = (
        _RUN.format(path=program)
        + """
import numpy as np
x = np.ones((2, 3), np.float32)
assert isinstance(method.execute([x])[0], np.ndarray)
import torch
assert isinstance(method.execute([torch.ones(2, 3)])[0], torch.Tensor)
assert isinstance(method.execute([x])[0], np.ndarray)
"""
    )
    run(script)
