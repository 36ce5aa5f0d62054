"""Names in a file that are no UTF-8, and such names of a caller: errors of ours."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pteron.runtime import PteronError, Runtime
from pteron.runtime.python.program import Program
from pteron.runtime.tests.program_builder import MethodBuilder, build_program

NAMES = {
    "method": b"forward",
    "buffer": b"abuffer",
    "backend": b"Backend",
    "value": b"avalue_",
    "inputs": b"ainputs",
    "outputs": b"aoutput",
}


def program(bad: str) -> Program:
    method = MethodBuilder()
    x = method.input([2])
    method.scalar_input("avalue_")
    state = method.tensor([2], buffer_name="abuffer")
    method.clone(x, state)
    method.delegate("Backend", x)
    method.containers('"ainputs"', '"aoutput"')
    method.output(state, method.value("avalue_"))
    data = build_program(method)
    name = NAMES[bad]
    assert name in data
    return Runtime.get().load_program(data.replace(name, name[:-1] + b"\xff"))


USES: list[Callable[[Program], object]] = [
    lambda p: p.method_names,
    lambda p: p.metadata("forward"),
    lambda p: p.metadata("forward").input_meta(0),
    lambda p: p.load_method("forward"),
    lambda p: p.describe(),
    repr,
]


@pytest.mark.parametrize("bad", NAMES)
def test_names_that_are_no_utf8(bad: str) -> None:
    found = 0
    for use in USES:
        try:
            use(program(bad))
        except PteronError:
            found += 1
    assert found > 0


def test_state_with_such_a_name() -> None:
    method = MethodBuilder()
    x = method.input([2])
    state = method.tensor([2], buffer_name="abuffer")
    method.kernel("aten::copy_", state, x, method.value(False), state)
    method.output(state, method.value("avalue_"))
    data = build_program(method)
    loaded = Runtime.get().load_program(data.replace(b"abuffer", b"\xc0\xafuffer"[:7]))
    with pytest.raises(PteronError, match="no UTF-8"):
        loaded.load_method("forward")
    bad_value = Runtime.get().load_program(data.replace(b"avalue_", b"\xed\xa0\x80lue_"))
    with pytest.raises(PteronError, match="no UTF-8"):
        bad_value.load_method("forward").execute([memoryview(bytes(8)).cast("f")])


def test_names_of_a_caller() -> None:
    method = MethodBuilder()
    method.scalar_input("text")
    method.output(method.value(1))
    loaded = Runtime.get().load_program(build_program(method))
    for name in ("\udcff", "a\0b", "\ud800\udc00", ""):
        with pytest.raises(PteronError):
            loaded.load_method(name)
        with pytest.raises(PteronError):
            loaded.metadata(name)
        with pytest.raises(PteronError):
            loaded.load_method("forward", devices={name: "cpu"})
        with pytest.raises(PteronError):
            loaded.load_method("forward", backend_options={name: {}})
        with pytest.raises(PteronError):
            loaded.load_method("forward").execute([name])
        with pytest.raises((PteronError, TypeError, ValueError)):
            loaded.session().buffer(name)


def test_paths_that_are_no_regular_files(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.pte"
    os.mkfifo(pipe)
    method = MethodBuilder()
    method.output(method.value(1))
    good = build_program(method)

    def load_all() -> None:
        for path in (pipe, tmp_path, "/dev/null"):
            with pytest.raises(PteronError, match="no regular file"):
                Runtime.get().load_program(path)
            with pytest.raises(PteronError, match="no regular file"):
                Runtime.get().load_program(good, data_path=path)
        done.set()

    done = threading.Event()
    threading.Thread(target=load_all, daemon=True).start()
    assert done.wait(20), "it waits for a writer of the pipe"
