"""Runtime, Program, Method, Session and what they raise."""

import io
import os
import pathlib
import pickle

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
    build_program,
    build_tensor_data,
    copy_program,
    divide_program,
    exchange_method,
)


def two_inputs() -> bytes:
    """forward(x, n, flag, name, None) = x, n."""
    method = MethodBuilder()
    x = method.input([2, 3])
    n = method.scalar_input(4)
    method.scalar_input(True)
    method.scalar_input("mode")
    method.scalar_input(None)
    y = method.planned([2, 3])
    method.clone(x, y)
    method.output(y, n)
    return build_program(method)


def test_example(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(copy_program())
    program = Runtime.get().load_program(path)
    assert program.method_names == {"forward"}
    method = program.load_method("forward")
    x = torch.arange(6.0).view(2, 3)
    (y,) = method.execute([x])
    assert torch.equal(y, x)


def test_programs_come_from_paths_bytes_and_files(tmp_path: pathlib.Path) -> None:
    data = copy_program()
    path = tmp_path / "model.pte"
    path.write_bytes(data)
    x = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    for source in (path, str(path), data, bytearray(data), memoryview(data), io.BytesIO(data)):
        (y,) = Runtime.get().load_program(source).load_method("forward").execute([x])
        np.testing.assert_array_equal(y, x)
    with pytest.raises(TypeError, match="found int"):
        Runtime.get().load_program(3)


def test_tensor_data_comes_from_paths_bytes_and_files(tmp_path: pathlib.Path) -> None:
    method = MethodBuilder()
    weights = [method.tensor([2], external_name=name) for name in ("a", "b")]
    method.output(*weights)
    program = build_program(method)
    a, b = (build_tensor_data(name, [1, 2]) for name in ("a", "b"))
    path = tmp_path / "b.ptd"
    path.write_bytes(b)
    for second in (path, str(path), b, bytearray(b), memoryview(b), io.BytesIO(b)):
        loaded = Runtime.get().load_program(program, data_path=[a, second])
        outputs = loaded.load_method("forward").execute([])
        assert [output.tolist() for output in outputs] == [[1, 2], [1, 2]]
    assert Runtime.get().load_program(program, data_path=b).method_names == {"forward"}
    with pytest.raises(InvalidProgramError, match="tensor data 1 in memory: 8 bytes are too few"):
        Runtime.get().load_program(program, data_path=[a, b"no data!"])
    with pytest.raises(TypeError, match="found int"):
        Runtime.get().load_program(program, data_path=[3])  # type: ignore[list-item]


def test_only_allowed_backends_are_loaded(tmp_path: pathlib.Path) -> None:
    method = MethodBuilder()
    x = method.input([2])
    method.delegate("SomeBackend", x)
    method.output(x)
    data = build_program(method)
    path = tmp_path / "model.pte"
    path.write_bytes(data)
    for source in (data, path):
        with pytest.raises(NotSupportedError, match=r"SomeBackend; allowed are: none"):
            Runtime.get().load_program(source, allowed_backends=())
        with pytest.raises(NotSupportedError, match=r"SomeBackend; allowed are: A, B"):
            Runtime.get().load_program(source, allowed_backends=("A", "B"))
        assert Runtime.get().load_program(source, allowed_backends={"SomeBackend"})
    assert Runtime.get().load_program(copy_program(), allowed_backends=[])
    with pytest.raises(TypeError, match="found a str"):
        Runtime.get().load_program(data, allowed_backends="SomeBackend")


def test_a_path_in_no_encoding(tmp_path: pathlib.Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/model-\xff.pte")
    with pytest.raises(NotFoundError, match=r"model-\\xff.pte"):
        Runtime.get().load_program(path)
    pathlib.Path(path).write_bytes(copy_program())
    assert Runtime.get().load_program(path).method_names == {"forward"}


def test_bytes_live_as_long_as_the_method() -> None:
    method = Runtime.get().load_program(bytes(copy_program())).load_method("forward")
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
    assert meta.operators() == ["aten::clone.out"]
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
    assert torch.equal(y, x) and n == 4
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
        ([torch.ones(2, 3) + 0j, 4, True, "mode", None], "complex64, expected float32"),
        ([torch.ones(2, 3).double(), 4, True, "mode", None], "float64, expected float32"),
        ([torch.ones(2, 3), 5, True, "mode", None], "differs from Int 4"),
        ([torch.ones(2, 3), 4, True, "other", None], "mode"),
        ([torch.ones(2, 3), "4", True, "mode", None], "String"),
        ([torch.ones(2, 3), 2**70, True, "mode", None], "more than 64 bits"),
        ([object(), 4, True, "mode", None], "found a object"),
        ([1.0, 4, True, "mode", None], "Double"),
        ([torch.ones(2, 3, dtype=torch.complex32), 4, True, "mode", None], "DLPack type code 5"),
        ([np.array(["a"]), 4, True, "mode", None], "format"),
    ],
)
def test_wrong_inputs_raise_and_leave_the_method_usable(inputs: list, message: str) -> None:
    method = Runtime.get().load_program(two_inputs()).load_method("forward")
    with pytest.raises(InvalidArgumentError, match=message):
        method.execute(inputs)
    y, _ = method.execute([torch.ones(2, 3), 4, True, "mode", None])
    assert torch.equal(y, torch.ones(2, 3))


def test_there_is_nothing_to_prepare_on_the_cpu() -> None:
    method = Runtime.get().load_program(two_inputs()).load_method("forward")
    with pytest.raises(InvalidArgumentError, match="differs from Int 4"):
        method.prepare([torch.ones(2, 3), 5, True, "mode", None])
    method.prepare([torch.ones(2, 3), 4, True, "mode", None])
    y, _ = method.execute([torch.ones(2, 3), 4, True, "mode", None])
    assert torch.equal(y, torch.ones(2, 3))


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
    with pytest.raises(InvalidArgumentError, match=r"found a Tensor, expected a list.*\[x\]"):
        method.execute(torch.ones(5))


def test_errors_name_what_there_is(tmp_path: pathlib.Path) -> None:
    program = Runtime.get().load_program(copy_program())
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
        Runtime.get().load_program(copy_program()[:80])
    with pytest.raises(PteronError):
        Runtime.get().load_program(copy_program(), data_path=tmp_path / "missing.ptd")


def test_a_missing_kernel_and_a_missing_backend() -> None:
    with pytest.raises(NotSupportedError, match="aten::nothing.out") as raised:
        Runtime.get().load_program(copy_program(operator="aten::nothing.out")).load_method(
            "forward"
        )
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
    loaded = Runtime.get().load_program(divide_program()).load_method("forward")
    with pytest.raises(InvalidArgumentError, match="division by zero"):
        loaded.execute([torch.tensor(0)])
    assert loaded.execute([torch.tensor(2)]) == [3]


def test_what_has_no_digests_is_refused_where_they_are_required() -> None:
    with pytest.raises(InvalidProgramError, match="it has no digests"):
        Runtime.get().load_program(copy_program(), verification=Verification.Required)


@pytest.mark.parametrize("verification", [v for v in Verification if v.name != "Required"])
def test_verification_levels(verification: Verification) -> None:
    program = Runtime.get().load_program(copy_program(), verification=verification)
    x = torch.tensor([[-1.0, 2.0, -3.0], [4.0, -5.0, 6.0]])
    (found,) = program.load_method("forward").execute([x])
    assert torch.equal(found, x)


def test_sessions_share_state_by_name_and_only_within() -> None:
    program = Runtime.get().load_program(
        build_program(exchange_method("first"), exchange_method("second"))
    )
    session, other = program.session(), program.session()
    first = program.load_method("first", session=session)
    second = program.load_method("second", session=session)
    first_other = program.load_method("first", session=other)
    alone = program.load_method("first")
    one = torch.ones(2)
    assert first.execute([one])[0].tolist() == [0, 0]
    assert first.execute([2 * one])[0].tolist() == [1, 1]
    assert second.execute([3 * one])[0].tolist() == [2, 2]
    assert first_other.execute([one])[0].tolist() == [0, 0]
    assert alone.execute([one])[0].tolist() == [0, 0]
    assert session.buffer_names() == ["held"]
    assert session.buffer("held").tolist() == [3, 3]
    assert first.session().buffer("held").tolist() == [3, 3]
    session.reset()
    assert first.execute([one])[0].tolist() == [0, 0]
    assert other.buffer("held").tolist() == [1, 1]
    alone.reset_state()
    assert alone.execute([one])[0].tolist() == [0, 0]
    with pytest.raises(NotFoundError):
        session.buffer("other")
    meta = program.metadata("first")
    assert meta.num_attributes() == 1
    assert meta.attribute_tensor_meta(0).name() == "held"


def test_a_copy_of_a_buffer_stays_as_it_is() -> None:
    program = Runtime.get().load_program(build_program(exchange_method("exchange")))
    method = program.load_method("exchange")
    method.execute([torch.ones(2)])
    before = method.session().buffer("held")
    method.execute([torch.zeros(2)])
    assert before.tolist() == [1, 1]


def test_pickling_says_what_to_do() -> None:
    program = Runtime.get().load_program(copy_program())
    for value in (program, program.load_method("forward")):
        with pytest.raises(TypeError, match="cannot be pickled; pickle .*load it there"):
            pickle.dumps(value)


def test_state_is_written_and_copied() -> None:
    program = Runtime.get().load_program(build_program(exchange_method("exchange")))
    session = program.session()
    method = program.load_method("exchange", session=session)
    for value in (
        np.float32([1, 2]),
        torch.tensor([1.0, 2.0]),
        torch.tensor([[1.0, 5], [2, 6]])[:, 0],
        np.float32([9, 1, 9, 2])[1::2],
    ):
        session.state["held"] = value
        assert session.state["held"].tolist() == [1, 2]
    copy = session.copy()
    assert list(session.state) == ["held"] and dict(copy.state).keys() == {"held"}
    (before,) = method.execute([np.float32([3, 4])])
    assert before.tolist() == [1, 2] and session.state["held"].tolist() == [3, 4]
    assert copy.state["held"].tolist() == [1, 2]
    (before,) = program.load_method("exchange", session=copy).execute([np.float32([0, 0])])
    assert before.tolist() == [1, 2]
    for wrong, message in (
        (np.float64([1, 2]), r"held is float32\[2\], dense; found float64\[2\]"),
        (np.float32([1]), r"found float32\[1\]"),
        ([1, 2], "found a list, expected a tensor"),
    ):
        with pytest.raises(PteronError, match=message):
            session.state["held"] = wrong
    with pytest.raises(PteronError, match='no mutable buffer "other"'):
        session.state["other"] = np.float32([1, 2])


def test_a_session_belongs_to_its_program() -> None:
    data = build_program(exchange_method("exchange"))
    session = Runtime.get().load_program(data).session()
    with pytest.raises(PteronError, match="session"):
        Runtime.get().load_program(data).load_method("exchange", session=session)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"NoSuchBackend": {"x": 1}}, "NoSuchBackend"),
        ({"NoSuchBackend": {"x": 1.5}}, "is a float, expected bool, int or str"),
    ],
)
def test_options_for_backends_that_are_not_there(options: dict, message: str) -> None:
    program = Runtime.get().load_program(copy_program())
    with pytest.raises(InvalidArgumentError, match=message):
        program.load_method("forward", backend_options=options)


def test_devices_that_stand_for_others() -> None:
    program = Runtime.get().load_program(copy_program())
    assert program.load_method("forward", devices={"cuda:0": "cuda:1"}) is not None
    for wrong in ({"cuda:0": "tpu:1"}, {"cuda:0": "cpu"}, {"gpu": "cuda"}):
        with pytest.raises(InvalidArgumentError, match="expected cpu, cuda|cannot stand for"):
            program.load_method("forward", devices=wrong)


def test_registries() -> None:
    registry = Runtime.get().backend_registry
    assert isinstance(registry.registered_backend_names, list)
    assert not registry.is_available("NoSuchBackend")
    assert "aten::clone.out" in Runtime.get().operator_registry.operator_names
    with pytest.raises(AccessError, match="no_such_library.so"):
        registry.open_library("/no_such_library.so")


def test_every_name_of_the_front_door_is_there() -> None:
    for name in runtime.__all__:
        assert getattr(runtime, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = runtime.Nothing
