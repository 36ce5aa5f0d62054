"""The C API, called as other languages call it."""

import ctypes
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from ctypes import byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import pytest

from pteron.runtime.tests.program_builder import (
    DTYPES,
    MethodBuilder,
    build_program,
    copy_program,
    divide_program,
    exchange_method,
)

LIB = ctypes.CDLL(os.path.abspath(os.environ["PTERON"]))
TENSOR, INT, LIST = 4, 1, 6
FLOAT32 = 6


class Value(ctypes.Structure):
    _fields_ = [
        ("kind", c_int32),
        ("dtype", c_int32),
        ("device_type", c_int32),
        ("device_index", c_int32),
        ("integer", c_int64),
        ("number", c_double),
        ("sizes", ctypes.POINTER(c_int64)),
        ("rank", c_size_t),
        ("dim_order", ctypes.POINTER(ctypes.c_uint8)),
        ("data", c_void_p),
        ("nbytes", c_size_t),
        ("reserved", c_uint64),
    ]


class Info(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("kind", c_int32),
        ("dtype", c_int32),
        ("device_type", c_int32),
        ("device_index", c_int32),
        ("sizes", ctypes.POINTER(c_int64)),
        ("dim_order", ctypes.POINTER(ctypes.c_uint8)),
        ("rank", c_size_t),
        ("nbytes", c_size_t),
        ("dynamic", c_int32),
        ("padding", c_int32),
        ("reserved", c_uint64),
    ]


class LoadOptions(ctypes.Structure):
    _fields_ = [
        ("data_paths", ctypes.POINTER(c_char_p)),
        ("data_paths_size", c_size_t),
        ("allowed_backends", ctypes.POINTER(c_char_p)),
        ("allowed_backends_size", c_size_t),
        ("restrict_backends", c_int32),
        ("verify_digests", c_int32),
        ("planned_bytes", c_uint64),
        ("load_bytes", c_uint64),
        ("instructions", c_uint64),
        ("run_time", c_double),
        ("reserved", c_uint64),
    ]


class ExecuteOptions(ctypes.Structure):
    _fields_ = [("timeout", c_double), ("reserved", c_uint64)]


_P, _S, _N = c_void_p, c_char_p, c_size_t
SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "abi_version": (ctypes.c_uint32, []),
    "version": (_S, []),
    "status_name": (_S, [ctypes.c_uint32]),
    "last_error": (_S, []),
    "dtype_name": (_S, [c_int32]),
    "dtype_size": (_N, [c_int32]),
    "load": (ctypes.c_uint32, [_S, _P, _P]),
    "load_bytes": (ctypes.c_uint32, [_P, _N, _P, _P]),
    "clone": (ctypes.c_uint32, [_P, _P]),
    "free": (None, [_P]),
    "method_name": (_S, [_P, _N]),
    "load_method": (ctypes.c_uint32, [_P, _S]),
    "sizes": (ctypes.c_uint32, [_P, _S, _P, _P]),
    "input_info": (ctypes.c_uint32, [_P, _S, _N, _P]),
    "output_info": (ctypes.c_uint32, [_P, _S, _N, _P]),
    "execute": (ctypes.c_uint32, [_P, _S, _P, _N, _P]),
    "output": (ctypes.c_uint32, [_P, _S, _N, _P]),
    "output_size": (ctypes.c_uint32, [_P, _S, _N, _P]),
    "output_item": (ctypes.c_uint32, [_P, _S, _N, _N, _P]),
    "set_output": (ctypes.c_uint32, [_P, _S, _N, _P, _N]),
    "cancel": (ctypes.c_uint32, [_P, _S, _P]),
    "reset_state": (ctypes.c_uint32, [_P]),
}
for _name, (_result, _arguments) in SIGNATURES.items():
    _function = getattr(LIB, f"pteron_{_name}")
    _function.restype, _function.argtypes = _result, _arguments


class Failure(Exception):
    def __init__(self, status: int) -> None:
        self.name = LIB.pteron_status_name(status).decode()
        super().__init__(LIB.pteron_last_error().decode())


def call(name: str, *arguments: Any) -> None:
    if status := getattr(LIB, f"pteron_{name}")(*arguments):
        raise Failure(status)


def load(data: bytes, options: LoadOptions | None = None) -> c_void_p:
    module = c_void_p()
    call("load_bytes", data, len(data), options and byref(options), byref(module))
    return module


def tensor(values: list[float], shape: list[int], **changes: Any) -> Value:
    data = (ctypes.c_float * len(values))(*values)
    fields = {
        "kind": TENSOR,
        "dtype": FLOAT32,
        "sizes": (c_int64 * len(shape))(*shape),
        "rank": len(shape),
        "data": ctypes.cast(data, c_void_p),
        "nbytes": 4 * len(values),
    }
    value = Value(**{**fields, **changes})
    value.keep = data  # type: ignore[attr-defined]
    return value


def execute(module: c_void_p, *inputs: Value, method: bytes = b"forward", **options: Any) -> None:
    array = (Value * len(inputs))(*inputs)
    execute_options = ExecuteOptions(**options) if options else None
    call("execute", module, method, array, len(inputs), execute_options and byref(execute_options))


def output(module: c_void_p, method: bytes = b"forward") -> list[float]:
    value = Value()
    call("output", module, method, 0, byref(value))
    assert (value.kind, value.dtype, value.device_type) == (TENSOR, FLOAT32, 0)
    return list((ctypes.c_float * (value.nbytes // 4)).from_address(value.data))


@pytest.fixture
def module() -> Iterator[c_void_p]:
    loaded = load(copy_program())
    yield loaded
    LIB.pteron_free(loaded)


SIX = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_it_runs(module: c_void_p) -> None:
    assert LIB.pteron_method_name(module, 0) == b"forward"
    for _ in range(2):
        execute(module, tensor(SIX, [2, 3]))
        assert output(module) == SIX


def test_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "größe.pte"
    path.write_bytes(copy_program())
    module = c_void_p()
    call("load", os.fsencode(path), None, byref(module))
    execute(module, tensor(SIX, [2, 3]))
    assert output(module) == SIX
    LIB.pteron_free(module)


def test_versions_and_names() -> None:
    assert LIB.pteron_abi_version() == 1
    assert LIB.pteron_version().count(b".") == 2
    assert LIB.pteron_status_name(0) == b"Ok"
    assert LIB.pteron_status_name(12345) == b"Unknown"
    for name, (number, size) in DTYPES.items():
        assert LIB.pteron_dtype_name(number) == name.encode()
        assert LIB.pteron_dtype_size(number) == size
    for number in (-1, 5000, 256 + FLOAT32, -(2**31)):
        assert LIB.pteron_dtype_name(number) == b"unknown"
        assert LIB.pteron_dtype_size(number) == 0


def test_the_signature_of_a_method() -> None:
    module = load(copy_program((4, 8), bounded=True))
    inputs, outputs, info = c_size_t(), c_size_t(), Info()
    call("sizes", module, b"forward", byref(inputs), byref(outputs))
    assert (inputs.value, outputs.value) == (1, 1)
    for name in ("input_info", "output_info"):
        call(name, module, b"forward", 0, byref(info))
        assert (info.kind, info.dtype, info.rank, info.nbytes) == (TENSOR, FLOAT32, 2, 128)
        assert (info.sizes[:2], info.dim_order[:2], info.dynamic) == ([4, 8], [0, 1], 1)
    execute(module, tensor(SIX, [2, 3]))
    assert output(module) == SIX
    LIB.pteron_free(module)


def test_values_that_are_no_tensors() -> None:
    method = MethodBuilder()
    inputs = [method.scalar_input(value) for value in (3, 2.5, True, "text", None)]
    method.output(*inputs)
    module = load(build_program(method))
    text = ctypes.create_string_buffer(b"text and more")
    values = [
        Value(kind=INT, integer=3),
        Value(kind=2, number=2.5),
        Value(kind=3, integer=1),
        Value(kind=5, data=ctypes.cast(text, c_void_p), nbytes=4),
        Value(kind=0),
    ]
    execute(module, *values)
    outputs = [Value() for _ in values]
    for i, value in enumerate(outputs):
        call("output", module, b"forward", i, byref(value))
        assert value.kind == values[i].kind
    assert (outputs[0].integer, outputs[1].number, outputs[2].integer) == (3, 2.5, 1)
    assert ctypes.string_at(outputs[3].data, outputs[3].nbytes) == b"text"
    for i in range(4):  # what was exported cannot be changed
        changed = list(values)
        changed[i] = Value(kind=values[i].kind, integer=0, number=0)
        with pytest.raises(Failure, match=f"input {i}"):
            execute(module, *changed)
    LIB.pteron_free(module)


def test_another_dim_order() -> None:
    module = load(copy_program(dim_order=[1, 0]))
    info, value = Info(), Value()
    call("input_info", module, b"forward", 0, byref(info))
    assert info.dim_order[:2] == [1, 0]
    with pytest.raises(Failure, match="dim order"):
        execute(module, tensor(SIX, [2, 3]))
    execute(module, tensor(SIX, [2, 3], dim_order=info.dim_order))
    assert output(module) == SIX
    call("output", module, b"forward", 0, byref(value))
    assert (value.sizes[:2], value.dim_order[:2]) == ([2, 3], [1, 0])
    LIB.pteron_free(module)


def test_integers() -> None:
    module = load(divide_program())
    number = (c_int64 * 1)(2)
    n = Value(kind=TENSOR, dtype=4, data=ctypes.cast(number, c_void_p), nbytes=8)
    execute(module, n)
    result = Value()
    call("output", module, b"forward", 0, byref(result))
    assert (result.kind, result.integer) == (INT, 3)
    number[0] = 0
    with pytest.raises(Failure, match="zero"):
        execute(module, n)
    with pytest.raises(Failure, match="has not run, or its last run failed"):
        call("output", module, b"forward", 0, byref(result))
    number[0] = 7
    execute(module, n)
    LIB.pteron_free(module)


def test_outputs_that_are_lists() -> None:
    method = MethodBuilder()
    x, y = method.input([2, 3]), method.planned([2, 3])
    method.clone(x, y)
    method.output(method.tensor_list([y, x]), method.int_list([5, -7]), y)
    module = load(build_program(method))
    execute(module, tensor(SIX, [2, 3]))
    size, value = c_size_t(), Value()
    call("output", module, b"forward", 0, byref(value))
    assert value.kind == LIST
    for index, kind in ((0, TENSOR), (1, INT)):
        call("output_size", module, b"forward", index, byref(size))
        assert size.value == 2
        for item in range(2):
            call("output_item", module, b"forward", index, item, byref(value))
            assert value.kind == kind
            if kind == INT:
                assert value.integer == (5, -7)[item]
            else:
                assert (value.dtype, value.sizes[:2], value.nbytes) == (FLOAT32, [2, 3], 24)
                assert list((ctypes.c_float * 6).from_address(value.data)) == SIX
        with pytest.raises(Failure, match=f"output {index} has no item 2; it has 2") as failure:
            call("output_item", module, b"forward", index, 2, byref(value))
        assert failure.value.name == "NotFound"
    for name, arguments in (("output_size", [byref(size)]), ("output_item", [0, byref(value)])):
        with pytest.raises(Failure, match="is Tensor, not a list"):
            call(name, module, b"forward", 2, *arguments)
    with pytest.raises(Failure, match="output 0 is TensorList, not a tensor"):
        call("set_output", module, b"forward", 0, byref(value), 24)
    LIB.pteron_free(module)


def test_outputs_in_memory_of_the_caller() -> None:
    method = MethodBuilder()
    x, y, z = method.input([2, 3]), method.tensor([2, 3]), method.planned([2, 3])
    method.clone(x, y)
    method.clone(x, z)
    method.output(y, z)
    module = load(build_program(method))
    execute(module, tensor(SIX, [2, 3]))
    mine, other, value = (ctypes.c_float * 6)(), (ctypes.c_float * 6)(), Value()
    with pytest.raises(Failure, match="needs 24 bytes, 20 were given"):
        call("set_output", module, b"forward", 0, mine, 20)
    assert output(module) == SIX  # a failed call changes nothing
    call("set_output", module, b"forward", 0, mine, 24)
    with pytest.raises(Failure, match="has not run"):
        output(module)
    for memory, factor in ((mine, 2.0), (mine, 3.0), (other, 4.0)):
        call("set_output", module, b"forward", 0, memory, 24)
        values = [factor * element for element in SIX]
        execute(module, tensor(values, [2, 3]))
        call("output", module, b"forward", 0, byref(value))
        assert value.data == ctypes.addressof(memory)
        assert list(memory) == values
    assert list(mine) == [3 * element for element in SIX]
    with pytest.raises(Failure, match="output 1 has memory of its own") as failure:
        call("set_output", module, b"forward", 1, mine, 24)
    assert failure.value.name == "InvalidState"
    LIB.pteron_free(module)


def test_state_and_clones() -> None:
    first = load(build_program(exchange_method("a"), exchange_method("b")))
    second = c_void_p()
    call("clone", first, byref(second))
    execute(first, tensor([1, 2], [2]), method=b"a")
    for module, held in ((first, [1, 2]), (second, [0, 0])):
        execute(module, tensor([3, 4], [2]), method=b"b")
        assert output(module, b"b") == held
    LIB.pteron_free(first)  # the other one keeps the program
    call("reset_state", second)
    execute(second, tensor([5, 6], [2]), method=b"a")
    assert output(second, b"a") == [0, 0]
    LIB.pteron_free(second)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"kind": 77}, "kind 77"),
        ({"kind": -1}, "kind -1"),
        ({"kind": INT}, "Int"),
        ({"kind": 0}, "None"),
        ({"kind": 5, "data": None}, "string is null"),
        ({"dtype": 8}, "dtype 8"),
        ({"dtype": -1}, "dtype -1"),
        ({"dtype": 256 + FLOAT32}, "dtype 262"),
        ({"dtype": 7, "nbytes": 48}, "float64"),
        ({"device_type": 5}, "device type 5"),
        ({"device_index": 300}, "device index 300"),
        ({"device_index": 1}, "device index 1"),
        ({"device_type": 1}, "cuda"),
        ({"rank": 17}, "rank 17"),
        ({"rank": 2**63}, "rank"),
        ({"rank": 1, "nbytes": 8}, "1 dim"),
        ({"sizes": None}, "`sizes` is null"),
        ({"sizes": (c_int64 * 2)(-2, -3)}, "negative"),
        ({"sizes": (c_int64 * 2)(2**62, 2**62)}, "more bytes than can be counted"),
        ({"sizes": (c_int64 * 2)(3, 3), "nbytes": 36}, "expected"),
        ({"sizes": (c_int64 * 2)(0, 3), "nbytes": 0, "data": None}, "expected"),
        ({"dim_order": (ctypes.c_uint8 * 2)(1, 1)}, "dim order"),
        ({"dim_order": (ctypes.c_uint8 * 2)(0, 255)}, "dim order"),
        ({"dim_order": (ctypes.c_uint8 * 2)(1, 0)}, "dim order"),
        ({"nbytes": 20}, "24 bytes, and `nbytes` is 20"),
        ({"nbytes": 28}, "24 bytes, and `nbytes` is 28"),
        ({"data": None}, "`data` is null"),
        ({"reserved": 1}, "`reserved`"),
    ],
)
def test_bad_inputs(module: c_void_p, changes: dict[str, Any], found: str) -> None:
    with pytest.raises(Failure) as failure:
        execute(module, tensor(SIX, [2, 3], **changes))
    assert found in str(failure.value)
    assert failure.value.name in ("InvalidArgument", "InvalidType")
    execute(module, tensor(SIX, [2, 3]))
    assert output(module) == SIX


def test_null_pointers_and_unknown_names(module: c_void_p) -> None:
    out, info, value, size = c_void_p(), Info(), tensor(SIX, [2, 3]), c_size_t()
    data = copy_program()
    cases: list[tuple[str, tuple[Any, ...], str]] = [
        ("load", (None, None, byref(out)), "`path` is null"),
        ("load", (b"x.pte", None, None), "`module` is null"),
        ("load", (b"", None, byref(out)), "cannot open"),
        ("load", (b"/", None, byref(out)), "/"),
        ("load_bytes", (None, 5, None, byref(out)), "`bytes` is null"),
        ("load_bytes", (data, 0, None, byref(out)), ""),
        ("load_bytes", (data, len(data) // 2, None, byref(out)), ""),
        ("clone", (None, byref(out)), "`module` is null"),
        ("clone", (module, None), "`module` is null"),
        ("load_method", (None, b"forward"), "`module` is null"),
        ("load_method", (module, None), "`method` is null"),
        ("load_method", (module, b"back\xffward"), "forward"),
        ("sizes", (module, b"forward", None, byref(size)), "`inputs` is null"),
        ("sizes", (module, b"forward", byref(size), None), "`outputs` is null"),
        ("sizes", (None, b"forward", byref(size), byref(size)), "`module` is null"),
        ("input_info", (module, b"forward", 1, byref(info)), "there is no input 1"),
        ("input_info", (module, b"forward", 2**64 - 1, byref(info)), "there is no input"),
        ("input_info", (module, b"forward", 0, None), "`info` is null"),
        ("input_info", (None, b"forward", 0, byref(info)), "`module` is null"),
        ("output_info", (module, b"forward", 1, byref(info)), "there is no output 1"),
        ("output_info", (None, b"forward", 0, byref(info)), "`module` is null"),
        ("execute", (None, b"forward", byref(value), 1, None), "`module` is null"),
        ("execute", (module, None, byref(value), 1, None), "`method` is null"),
        ("execute", (module, b"forward", None, 1, None), "`inputs` is null"),
        ("execute", (module, b"forward", None, 0, None), "has 1 inputs"),
        ("execute", (module, b"forward", byref(value), 2**60, None), "has 1 inputs"),
        ("execute", (module, b"nothing", byref(value), 1, None), "forward"),
        ("output", (module, b"forward", 0, byref(value)), "has not run"),
        ("output", (module, b"forward", 0, None), "`output` is null"),
        ("output", (None, b"forward", 0, byref(value)), "`module` is null"),
        ("output_size", (None, b"forward", 0, byref(size)), "`module` is null"),
        ("output_size", (module, b"forward", 0, None), "`items` is null"),
        ("output_item", (None, b"forward", 0, 0, byref(value)), "`module` is null"),
        ("output_item", (module, b"forward", 0, 0, None), "`value` is null"),
        ("output_item", (module, b"forward", 0, 0, byref(value)), "has not run"),
        ("set_output", (None, b"forward", 0, byref(value), 24), "`module` is null"),
        ("set_output", (module, b"forward", 0, None, 24), "`data` is null"),
        ("set_output", (module, b"forward", 1, byref(value), 24), "there is no output 1"),
        ("cancel", (None, b"forward", None), "`module` is null"),
        ("cancel", (module, None, None), "`method` is null"),
        ("reset_state", (None,), "`module` is null"),
    ]
    assert {name for name, _, _ in cases} == {
        name for name, (result, _) in SIGNATURES.items() if result is ctypes.c_uint32
    } - {"abi_version"}
    for name, arguments, found in cases:
        with pytest.raises(Failure) as failure:
            call(name, *arguments)
        assert found in str(failure.value) and str(failure.value), (name, arguments)
        assert out.value is None  # a failed call changes nothing
    LIB.pteron_free(None)
    assert LIB.pteron_method_name(None, 0) is None
    assert LIB.pteron_method_name(module, 1) is None
    execute(module, tensor(SIX, [2, 3]))
    with pytest.raises(Failure, match="there is no output 1"):
        call("output", module, b"forward", 1, byref(value))


def test_options() -> None:
    options = LoadOptions(verify_digests=1, planned_bytes=2**20, restrict_backends=1)
    module = load(copy_program(), options)
    execute(module, tensor(SIX, [2, 3]), timeout=10.0)
    LIB.pteron_free(module)
    module = load(copy_program(), LoadOptions(planned_bytes=5))
    with pytest.raises(Failure, match="planned_bytes is 5"):
        call("load_method", module, b"forward")
    LIB.pteron_free(module)


def names(*values: bytes | None) -> Any:
    return (c_char_p * len(values))(*values)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (LoadOptions(reserved=1), "`reserved`"),
        (LoadOptions(restrict_backends=2), "`restrict_backends` is 2"),
        (LoadOptions(verify_digests=-1), "`verify_digests` is -1"),
        (LoadOptions(data_paths_size=1), "`data_paths` is null"),
        (LoadOptions(data_paths=names(None), data_paths_size=1), "`data_paths[0]` is null"),
        (LoadOptions(data_paths=names(b"no.ptd"), data_paths_size=1), "no.ptd"),
        (LoadOptions(restrict_backends=1, allowed_backends_size=3), "`allowed_backends` is null"),
        (LoadOptions(run_time=-1), "run_time"),
        (LoadOptions(run_time=math.nan), "run_time"),
        (LoadOptions(load_bytes=1), "load_bytes"),
    ],
)
def test_bad_options(options: LoadOptions, found: str) -> None:
    with pytest.raises(Failure) as failure:
        load(copy_program(), options)
    assert found in str(failure.value)


def test_backends_can_be_forbidden() -> None:
    method = MethodBuilder()
    x, y = method.input([2]), method.tensor([2])
    method.delegate("SomeBackend", x, y)
    method.output(y)
    with pytest.raises(Failure, match="SomeBackend"):
        load(build_program(method), LoadOptions(restrict_backends=1))
    # Allowed, and not there.
    folder = os.path.dirname(os.path.realpath(os.environ["PTERON"]))
    module = load(build_program(method))
    with pytest.raises(Failure, match=f"expected {folder}/libsome_backend.so") as failure:
        call("load_method", module, b"forward")
    assert failure.value.name == "NotFound"
    LIB.pteron_free(module)


@pytest.mark.parametrize("name", ["../x/Backend", "some_backend", "Backend", "Some", "Ä Backend"])
def test_ids_of_backends_are_no_paths(name: str) -> None:
    method = MethodBuilder()
    x, y = method.input([2]), method.tensor([2])
    method.delegate(name, x, y)
    method.output(y)
    module = load(build_program(method))
    with pytest.raises(Failure, match="Link them into the program"):
        call("load_method", module, b"forward")
    LIB.pteron_free(module)


def endless() -> bytes:
    method = MethodBuilder()
    x = method.input([4])
    state = method.tensor([4], buffer_name="state")
    method.clone(x, state)
    method.jump_false(method.value(False), 0)
    method.output(state)
    return build_program(method)


def test_a_run_ends() -> None:
    x = tensor([1, 2, 3, 4], [4])
    module = load(endless(), LoadOptions(instructions=1000))
    with pytest.raises(Failure, match="instructions") as failure:
        execute(module, x)
    assert failure.value.name == "OutOfResources"
    LIB.pteron_free(module)

    module = load(endless(), LoadOptions(instructions=2**63))
    with pytest.raises(Failure) as failure:
        execute(module, x, timeout=0.05)
    assert failure.value.name == "TimedOut"
    with pytest.raises(Failure, match="timeout is no number"):
        execute(module, x, timeout=math.nan)

    ended: list[str] = []

    def run() -> None:
        try:
            execute(module, x)
        except Failure as error:
            ended.append(error.name)

    was_running = c_int32(5)
    call("cancel", module, b"forward", byref(was_running))
    assert was_running.value == 0
    thread = threading.Thread(target=run)
    thread.start()
    while not was_running.value:
        time.sleep(0.001)
        call("cancel", module, b"forward", byref(was_running))
    thread.join(10)
    assert ended == ["Cancelled"]
    LIB.pteron_free(module)


def test_messages_belong_to_a_thread() -> None:
    with pytest.raises(Failure, match="`path` is null"):
        call("load", None, None, byref(c_void_p()))
    seen = []
    thread = threading.Thread(target=lambda: seen.append(LIB.pteron_last_error()))
    thread.start()
    thread.join()
    assert seen == [b""]
    assert b"`path` is null" in LIB.pteron_last_error()


def test_threads_share_a_program() -> None:
    first = load(copy_program())
    failed = []

    def run(number: float) -> None:
        module = c_void_p()
        call("clone", first, byref(module))
        for i in range(200):
            values = [number + i] * 6
            execute(module, tensor(values, [2, 3]))
            if output(module) != values:
                failed.append(number)
        LIB.pteron_free(module)

    threads = [threading.Thread(target=run, args=(1000.0 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    LIB.pteron_free(first)


def test_nothing_is_leaked() -> None:
    script = f"""
import resource, sys
sys.argv = ["x"]
exec(open({__file__!r}).read().partition("@pytest.fixture")[0])
data = copy_program((256, 1024))
values = tensor([1.0] * (256 * 1024), [256, 1024])
def use():
    module = load(data)
    execute(module, values)
    try: execute(module)
    except Failure: pass
    LIB.pteron_free(module)
for _ in range(20): use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(300): use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 8 * 1024  # 300 modules have 600 MB
