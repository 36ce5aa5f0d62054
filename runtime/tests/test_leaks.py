"""What a call takes it gives back: memory, Python objects, references."""

import ctypes
import gc
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pteron.runtime import Program, PteronError, Runtime
from pteron.runtime.python import _native
from pteron.runtime.tests.program_builder import build_program, copy_program, exchange_method

CALLS = 1000

_MALLINFO = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _MALLINFO.split()]


_mallinfo2 = ctypes.CDLL(None).mallinfo2
_mallinfo2.restype = _Mallinfo2


class OnlyDlpack:
    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __dlpack__(self, **arguments: Any) -> Any:
        return self._tensor.__dlpack__(**arguments)


class Broken:
    @property
    def dtype(self) -> str:
        raise PteronError("no dtype")


X = np.ones((2, 3), np.float32)
TORCH_X = torch.ones(2, 3)
# Read as numbers: one leaked reference a call is CALLS of them.
WATCHED: dict[str, Any] = {
    "X": X,
    "TORCH_X": TORCH_X,
    "None": None,
    "float32": np.dtype(np.float32),
    "torch.Tensor": torch.Tensor,
    "PteronError": PteronError,
    **{name: getattr(_native, name) for name in ("DlpackArray", "Method", "Program", "Session")},
}


def _measure() -> dict[str, int]:
    gc.collect()
    memory = _mallinfo2()
    return {
        "bytes of malloc": memory.uordblks + memory.hblkhd,
        "blocks of Python": sys.getallocatedblocks(),
        **{f"references to {name}": sys.getrefcount(found) for name, found in WATCHED.items()},
    }


def check_gives_back(call: Callable[[], object]) -> None:
    for _ in range(10):
        call()
    before = _measure()
    for _ in range(CALLS):
        call()
    after = _measure()
    grown = {name: after[name] - before[name] for name in before}
    # Caches may fill, and other threads of the process may work; a leak is one in each call: of an
    # object, or of a block, of which malloc's smallest takes 32 bytes.
    per_call = {"bytes of malloc": 32}
    limits = {name: per_call.get(name, 1) * CALLS // 2 for name in grown}
    assert {name: by for name, by in grown.items() if abs(by) >= limits[name]} == {}


def raises(call: Callable[[], object]) -> None:
    try:
        call()
    except PteronError:
        return
    pytest.fail("nothing was raised")


@pytest.fixture
def program() -> Program:
    return Runtime.get().load_program(copy_program())


@pytest.mark.parametrize(
    "x",
    [X, TORCH_X, memoryview(X), OnlyDlpack(X), OnlyDlpack(TORCH_X), X[::-1]],
    ids=["numpy", "torch", "buffer", "dlpack", "torch-dlpack", "copied"],
)
@pytest.mark.parametrize("planned", [False, True])
def test_execute(x: Any, planned: bool) -> None:
    program = Runtime.get().load_program(copy_program(planned=planned))
    method = program.load_method("forward")
    check_gives_back(lambda: method.execute([x]))


def test_an_array_of_no_library() -> None:
    program = Runtime.get().load_program(copy_program(dtype="bfloat16"))
    method = program.load_method("forward")
    x = OnlyDlpack(torch.ones(2, 3, dtype=torch.bfloat16))

    def call() -> None:
        (y,) = method.execute([x])
        assert isinstance(y, _native.DlpackArray) and (y.shape, y.dtype) == ((2, 3), "bfloat16")
        assert y.__dlpack_device__() == (1, 0) and len(y.tobytes()) == 12
        y.__dlpack__()  # taken by nobody
        y.__dlpack__(max_version=(1, 0))
        torch.from_dlpack(y)

    check_gives_back(call)


def test_errors(program: Program, tmp_path: pathlib.Path) -> None:
    method = program.load_method("forward")
    calls = [
        lambda: method.execute([]),
        lambda: method.execute([object()]),
        lambda: method.execute([X[0]]),
        lambda: method.execute([X.astype(np.complex64)]),
        lambda: method.execute([Broken()]),
        lambda: program.load_method("backward"),
        lambda: program.load_method("forward", devices={"cpu": "nowhere"}),
        lambda: Runtime.get().load_program(tmp_path / "missing"),
        lambda: Runtime.get().load_program(b"no program"),
    ]
    for call in calls:
        check_gives_back(lambda call=call: raises(call))  # type: ignore[misc]


def test_loads(program: Program, tmp_path: pathlib.Path) -> None:
    data = copy_program()
    path = tmp_path / "model.pte"
    path.write_bytes(data)
    check_gives_back(lambda: Runtime.get().load_program(data))
    check_gives_back(lambda: Runtime.get().load_program(path))
    check_gives_back(lambda: program.load_method("forward").execute([X]))


def test_state() -> None:
    program = Runtime.get().load_program(build_program(exchange_method("exchange")))
    one = np.ones(2, np.float32)

    def call() -> None:
        session = program.session()
        method = program.load_method("exchange", session=session)
        method.execute([one])
        method.reset_state()
        session.reset()
        for name in session.buffer_names():
            session.set_buffer(name, session.copy().buffer(name))

    check_gives_back(call)


def test_descriptions(program: Program) -> None:
    method = program.load_method("forward")
    runtime = Runtime.get()
    check_gives_back(lambda: repr(program.metadata("forward")))
    check_gives_back(lambda: repr(method.metadata))
    check_gives_back(lambda: runtime.backend_registry.is_available("nothing"))
    check_gives_back(lambda: runtime.operator_registry.operator_names)
