"""Runtime, Program, Method, Session and what they raise."""

from __future__ import annotations

import io
import os
import pathlib

import numpy as np
import pytest
import torch

from pteron import runtime
from pteron.runtime import (
    AccessError,
    InvalidArgumentError,
    InvalidProgramError,
    NotFoundError,
    NotSupportedError,
    PteronError,
    Runtime,
    ScalarMeta,
    ScalarType,
    Verification,
)
from pteron.runtime.tests.program_builder import (
    MethodBuilder,
    accumulate_method,
    build_program,
    unary_program,
)


def two_inputs() -> bytes:
    """forward(x, n, flag, name, None) = x + 2 x, n."""
    method = MethodBuilder()
    x = method.input([2, 3])
    n = method.scalar_input(4)
    method.scalar_input(True)
    method.scalar_input("mode")
    method.scalar_input(None)
    y = method.planned([2, 3])
    method.kernel("aten::add.out", x, x, method.value(2), y, y)
    method.output(y, n)
    return build_program(method)


def test_example(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(unary_program("aten::neg.out"))
    program = Runtime.get().load_program(path)
    assert program.method_names == {"forward"}
    method = program.load_method("forward")
    x = torch.arange(6.0).view(2, 3)
    (y,) = method.execute([x])
    assert torch.equal(y, -x)


def test_programs_come_from_paths_bytes_and_files(tmp_path: pathlib.Path) -> None:
    data = unary_program()
    path = tmp_path / "model.pte"
    path.write_bytes(data)
    x = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    for source in (path, str(path), data, bytearray(data), memoryview(data), io.BytesIO(data)):
        (y,) = Runtime.get().load_program(source).load_method("forward").execute([x])
        np.testing.assert_array_equal(y, np.maximum(x, 0))
    with pytest.raises(TypeError, match="found int"):
        Runtime.get().load_program(3)


def test_a_path_in_no_encoding(tmp_path: pathlib.Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/model-\xff.pte")
    with pytest.raises(NotFoundError, match="model-\N{REPLACEMENT CHARACTER}.pte"):
        Runtime.get().load_program(path)
    pathlib.Path(path).write_bytes(unary_program())
    assert Runtime.get().load_program(path).method_names == {"forward"}


def test_bytes_live_as_long_as_the_method() -> None:
    method = Runtime.get().load_program(bytes(unary_program())).load_method("forward")
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(method.execute([x])[0], x)


def test_metadata() -> None:
    meta = Runtime.get().load_program(two_inputs()).metadata("forward")
    assert (meta.name(), meta.num_inputs(), meta.num_outputs()) == ("forward", 5, 2)
    info = meta.input_tensor_meta(0)
    assert info.sizes() == (2, 3)
    assert info.dtype() == ScalarType["Float"] == 6
    assert info.nbytes() == 24
    assert not info.is_memory_planned()
    assert meta.output_tensor_meta(0).is_memory_planned()
    assert meta.input_meta(1) == ScalarMeta("Int", 4, symbolic=False)
    assert meta.input_meta(3).value == "mode"
    assert meta.operators() == ["aten::add.out"]
    with pytest.raises(InvalidArgumentError, match="input 1 is Int, not a tensor"):
        meta.input_tensor_meta(1)
    with pytest.raises(InvalidArgumentError, match="no input 5; there are 5"):
        meta.input_meta(5)
    with pytest.raises(InvalidArgumentError):
        meta.output_meta(-1)
    assert "float32[2, 3]" in repr(meta)


def test_scalars_and_other_kinds_of_inputs() -> None:
    method = Runtime.get().load_program(two_inputs()).load_method("forward")
    x = torch.ones(2, 3)
    y, n = method.execute([x, 4, True, "mode", None])
    assert torch.equal(y, 3 * x) and n == 4
    # A 0-d array stands for the number in it.
    y, n = method.execute([x, np.array(4), np.array(True), "mode", None])
    assert n == 4


def test_an_int_does_for_a_float() -> None:
    method = MethodBuilder()
    method.output(method.scalar_input(2.0))
    loaded = Runtime.get().load_program(build_program(method)).load_method("forward")
    assert loaded.execute([2]) == [2.0]
    with pytest.raises(InvalidArgumentError, match='input 0 of method "forward": an int too large'):
        loaded.execute([10**400])


@pytest.mark.parametrize(
    "inputs, message",
    [
        ([], r'method "forward" takes 5 inputs .* found 0'),
        ([torch.ones(2, 3)], "takes 5 inputs"),
        ([torch.ones(6), 4, True, "mode", None], "1 dimensions"),
        ([torch.ones(2, 4), 4, True, "mode", None], "dimension 1 is 4, expected 3"),
        ([torch.ones(2, 3).double(), 4, True, "mode", None], "float64, expected float32"),
        ([torch.ones(2, 3), 5, True, "mode", None], "differs from Int 4"),
        ([torch.ones(2, 3), 4, True, "other", None], "mode"),
        ([torch.ones(2, 3), "4", True, "mode", None], "String"),
        ([torch.ones(2, 3), 2**70, True, "mode", None], "more than 64 bits"),
        ([object(), 4, True, "mode", None], "found a object"),
        ([1.0, 4, True, "mode", None], "Double"),
        ([torch.ones(2, 3, dtype=torch.complex64), 4, True, "mode", None], "DLPack type code 5"),
        ([np.array(["a"]), 4, True, "mode", None], "format"),
    ],
)
def test_wrong_inputs_raise_and_leave_the_method_usable(inputs: list, message: str) -> None:
    method = Runtime.get().load_program(two_inputs()).load_method("forward")
    with pytest.raises(InvalidArgumentError, match=message):
        method.execute(inputs)
    y, _ = method.execute([torch.ones(2, 3), 4, True, "mode", None])
    assert torch.equal(y, torch.full((2, 3), 3.0))


def test_all_problems_of_the_inputs_at_once() -> None:
    method = Runtime.get().load_program(two_inputs()).load_method("forward")
    with pytest.raises(InvalidArgumentError) as raised:
        method.execute([torch.ones(2, 4), 5, False, "other", 1])
    for index in range(5):
        assert f"input {index}" in str(raised.value)


def test_inputs_that_are_no_sequence() -> None:
    method = Runtime.get().load_program(two_inputs()).load_method("forward")
    with pytest.raises(TypeError, match="sequence"):
        method.execute(5)


def test_errors_name_what_there_is(tmp_path: pathlib.Path) -> None:
    program = Runtime.get().load_program(unary_program())
    for call in (program.load_method, program.metadata):
        with pytest.raises(NotFoundError, match='"backward"; it has forward') as raised:
            call("backward")
        assert raised.value.code == "NotFound"
    with pytest.raises(NotFoundError, match="missing.pte"):
        Runtime.get().load_program(tmp_path / "missing.pte")
    with pytest.raises(AccessError):
        Runtime.get().load_program(tmp_path)
    with pytest.raises(InvalidProgramError):
        Runtime.get().load_program(b"not a program" * 10)
    with pytest.raises(InvalidProgramError):
        Runtime.get().load_program(unary_program()[:80])
    with pytest.raises(PteronError):
        Runtime.get().load_program(unary_program(), data_path=tmp_path / "missing.ptd")


def test_a_missing_kernel_and_a_missing_backend() -> None:
    with pytest.raises(NotSupportedError, match="aten::nothing.out") as raised:
        Runtime.get().load_program(unary_program("aten::nothing.out")).load_method("forward")
    assert raised.value.code == "OperatorMissing"
    method = MethodBuilder()
    x = method.input([2])
    y = method.planned([2])
    method.delegate("NoSuchBackend", x, y)
    method.output(y)
    program = Runtime.get().load_program(build_program(method))
    assert program.metadata("forward").backends() == ["NoSuchBackend"]
    with pytest.raises(NotFoundError, match="no backend NoSuchBackend; known here"):
        program.load_method("forward")


def test_an_error_in_the_middle_of_a_run() -> None:
    method = MethodBuilder()
    x = method.input([2], "int64")
    y = method.input([2], "int64")
    z = method.planned([2], "int64")
    method.kernel("aten::floor_divide.out", x, y, z, z)
    method.output(z)
    loaded = Runtime.get().load_program(build_program(method)).load_method("forward")
    x = torch.tensor([7, 9])
    with pytest.raises(InvalidArgumentError, match="integer division by zero"):
        loaded.execute([x, torch.tensor([1, 0])])
    assert loaded.execute([x, torch.tensor([2, 3])])[0].tolist() == [3, 3]


@pytest.mark.parametrize("verification", list(Verification))
def test_verification_levels(verification: Verification) -> None:
    program = Runtime.get().load_program(unary_program(), verification=verification)
    x = torch.tensor([[-1.0, 2.0, -3.0], [4.0, -5.0, 6.0]])
    (found,) = program.load_method("forward").execute([x])
    assert torch.equal(found, x.relu())


def test_sessions_share_state_by_name_and_only_within() -> None:
    program = Runtime.get().load_program(
        build_program(accumulate_method("add"), accumulate_method("subtract", "aten::sub.out"))
    )
    session, other = program.session(), program.session()
    add = program.load_method("add", session=session)
    subtract = program.load_method("subtract", session=session)
    add_other = program.load_method("add", session=other)
    alone = program.load_method("add")
    one = torch.ones(2)
    assert add.execute([one])[0].tolist() == [1, 1]
    assert add.execute([one])[0].tolist() == [2, 2]
    assert subtract.execute([5 * one])[0].tolist() == [-3, -3]
    assert add_other.execute([one])[0].tolist() == [1, 1]
    assert alone.execute([one])[0].tolist() == [1, 1]
    assert session.buffer_names() == ["total"]
    assert session.buffer("total").tolist() == [-3, -3]
    assert add.session().buffer("total").tolist() == [-3, -3]
    session.reset()
    assert add.execute([one])[0].tolist() == [1, 1]
    assert other.buffer("total").tolist() == [1, 1]
    alone.reset_state()
    assert alone.execute([one])[0].tolist() == [1, 1]
    with pytest.raises(NotFoundError):
        session.buffer("other")
    meta = program.metadata("add")
    assert meta.num_attributes() == 1
    assert meta.attribute_tensor_meta(0).name() == "total"


def test_a_copy_of_a_buffer_stays_as_it_is() -> None:
    program = Runtime.get().load_program(build_program(accumulate_method("add")))
    method = program.load_method("add")
    method.execute([torch.ones(2)])
    before = method.session().buffer("total")
    method.execute([torch.ones(2)])
    assert before.tolist() == [1, 1]


def test_a_session_belongs_to_its_program() -> None:
    data = build_program(accumulate_method("add"))
    session = Runtime.get().load_program(data).session()
    with pytest.raises(PteronError, match="session"):
        Runtime.get().load_program(data).load_method("add", session=session)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"NoSuchBackend": {"x": 1}}, "NoSuchBackend"),
        ({"NoSuchBackend": {"x": 1.5}}, "is a float, expected bool, int or str"),
    ],
)
def test_options_for_backends_that_are_not_there(options: dict, message: str) -> None:
    program = Runtime.get().load_program(unary_program())
    with pytest.raises(InvalidArgumentError, match=message):
        program.load_method("forward", backend_options=options)


def test_devices_that_stand_for_others() -> None:
    program = Runtime.get().load_program(unary_program())
    assert program.load_method("forward", devices={"cuda:0": "cuda:1"}) is not None
    for wrong in ({"cuda:0": "tpu:1"}, {"cuda:0": "cpu"}, {"gpu": "cuda"}):
        with pytest.raises(InvalidArgumentError, match="expected cpu, cuda|cannot stand for"):
            program.load_method("forward", devices=wrong)


def test_registries() -> None:
    registry = Runtime.get().backend_registry
    assert isinstance(registry.registered_backend_names, list)
    assert not registry.is_available("NoSuchBackend")
    assert "aten::add.out" in Runtime.get().operator_registry.operator_names
    with pytest.raises(AccessError, match="no_such_library.so"):
        registry.open_library("/no_such_library.so")


def test_every_name_of_the_front_door_is_there() -> None:
    for name in runtime.__all__:
        assert getattr(runtime, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = runtime.Nothing
