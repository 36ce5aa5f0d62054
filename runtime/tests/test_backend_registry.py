"""Backends are found by their id, opened once, and nothing else of their package is imported."""

import os
import pathlib
import subprocess
import sys

import pytest

from pteron.runtime.tests.program_builder import MethodBuilder, build_program

_LIBRARY = pathlib.Path(os.environ["NEGATE_BACKEND"]).resolve()

_SCRIPT = """
import sys
import numpy as np
import pteron
pteron.__path__ += {paths!r}
from pteron.runtime import Runtime, NotFoundError
registry = Runtime.get().backend_registry
assert registry.registered_backend_names == [], registry.registered_backend_names
program = Runtime.get().load_program({path!r})
{body}
assert not any(name.startswith("pteron.backends.negate.lowering") for name in sys.modules)
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A package `pteron.backends` with one backend whose lowering half must not be imported."""
    package = tmp_path / "backends" / "negate"
    package.mkdir(parents=True)
    (tmp_path / "backends" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "lowering.py").write_text("raise AssertionError('imported')")
    relative = os.path.relpath(_LIBRARY, package)
    (package / "native.py").write_text(f'BACKEND_ID = "NegateBackend"\nLIBRARY = {relative!r}\n')
    method = MethodBuilder()
    x = method.input([2])
    y = method.planned([2])
    method.delegate("NegateBackend", x, y)
    method.output(y)
    (tmp_path / "model.pte").write_bytes(build_program(method))
    return tmp_path


def run(folder: pathlib.Path, body: str) -> None:
    """Runs the script in a fresh process that finds `pteron.backends` in the folder, too."""
    script = _SCRIPT.format(path=str(folder / "model.pte"), paths=[str(folder)], body=body)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


def test_found_when_a_program_names_it(folder: pathlib.Path) -> None:
    run(
        folder,
        """
(y,) = program.load_method("forward").execute([np.array([1, -2], np.float32)])
assert y.tolist() == [-1, 2]
assert registry.registered_backend_names == ["NegateBackend"]
program.load_method("forward")
""",
    )


def test_large_outputs_own_their_memory(folder: pathlib.Path) -> None:
    method = MethodBuilder()
    x, y = method.input([1 << 16]), method.planned([1 << 16])
    method.delegate("NegateBackend", x, y)
    method.output(y)
    (folder / "model.pte").write_bytes(build_program(method))
    run(
        folder,
        """
method = program.load_method("forward")
x = np.arange(1 << 16, dtype=np.float32)
(first,) = method.execute([x])
(second,) = method.execute([first])
(third,) = method.execute([second])
del method, program
assert (first == -x).all() and (second == x).all() and (third == -x).all()
""",
    )


def test_found_when_asked_for(folder: pathlib.Path) -> None:
    run(folder, 'assert registry.is_available("NegateBackend")')


def test_opened_by_hand(folder: pathlib.Path) -> None:
    (folder / "backends" / "negate" / "native.py").unlink()
    run(
        folder,
        f"""
try:
    program.load_method("forward")
    raise AssertionError("found")
except NotFoundError as error:
    assert "no backend NegateBackend" in str(error) and "open_library" in str(error), error
assert registry.open_library({str(_LIBRARY)!r}) == ["NegateBackend"]
assert registry.open_library({str(_LIBRARY)!r}) == []
program.load_method("forward")
""",
    )


def test_options_reach_the_backend(folder: pathlib.Path) -> None:
    run(
        folder,
        """
method = program.load_method("forward", backend_options={"NegateBackend": {"scale": 3}})
assert method.execute([np.array([1, -2], np.float32)])[0].tolist() == [-3, 6]
from pteron.runtime import InvalidArgumentError
for option, problem in [
    ({"speed": 3}, "speed"),
    ({"scale": 1.5}, 'option "scale" of backend "NegateBackend" is a float, expected bool, int or'),
    ({"scale": 2**64}, 'option "scale" of backend "NegateBackend" is an int of more than 64 bits'),
]:
    try:
        program.load_method("forward", backend_options={"NegateBackend": option})
        raise AssertionError("taken")
    except InvalidArgumentError as error:
        assert problem in str(error), error
""",
    )


def test_a_library_that_is_missing(folder: pathlib.Path) -> None:
    native = folder / "backends" / "negate" / "native.py"
    native.write_text('BACKEND_ID = "NegateBackend"\nLIBRARY = "missing.so"\n')
    run(
        folder,
        """
from pteron.runtime import AccessError
try:
    program.load_method("forward")
    raise AssertionError("found")
except AccessError as error:
    assert "missing.so" in str(error)
""",
    )
