"""The runner as a program: files in, files out, and what it says."""

import json
import os
import pathlib
import re
import struct
import subprocess

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pteron.runtime.tests.program_builder import (
    MethodBuilder,
    build_program,
    copy_program,
    divide_program,
    exchange_method,
)

RUNNER = str(pathlib.Path(os.environ["RUNNER"]).resolve())
X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def run(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([RUNNER, *arguments], cwd=folder, capture_output=True, text=True)


def succeed(folder: pathlib.Path, *arguments: str) -> str:
    result = run(folder, *arguments)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def fail(folder: pathlib.Path, *arguments: str) -> str:
    """What a run that must fail says; it leaves no output behind."""
    before = {path: path.read_bytes() for path in folder.iterdir()}
    result = run(folder, *arguments)
    assert result.returncode == 1, result.stdout
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert result.stderr.startswith("runner: ")
    return result.stderr


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "m.pte").write_bytes(copy_program())
    save_file({"input_0": X}, tmp_path / "x.safetensors")
    return tmp_path


RUN = ("--program=m.pte", "--inputs=x.safetensors", "--outputs=y.safetensors")


def test_example(folder: pathlib.Path) -> None:
    assert succeed(folder, *RUN) == ""
    np.testing.assert_array_equal(load_file(folder / "y.safetensors")["output_0"], X)
    assert sorted(path.name for path in folder.iterdir()) == [
        "m.pte",
        "x.safetensors",
        "y.safetensors",
    ]


def many_inputs() -> bytes:
    """forward(11 tensors, None, "mode", flag, n, scale): tensors, numbers and lists."""
    method = MethodBuilder()
    tensors = [method.input([2], "float16") for _ in range(11)]
    method.scalar_input(None)
    method.scalar_input("mode")
    method.scalar_input(True)
    n = method.scalar_input(7)
    scale = method.scalar_input(0.5)
    out = method.planned([2], "float16")
    method.clone(tensors[10], out)
    method.output(out, tensors[0], n, scale, method.value(None), method.value("text"))
    method.output(method.int_list([3, 4]), method.tensor_list([tensors[1]]), method.value(True))
    return build_program(method)


def scalars() -> dict[str, np.ndarray]:
    return {"flag": np.array(True), "n": np.array(7), "scale": np.array(0.5)}


@pytest.mark.parametrize("numbered", [True, False])
def test_inputs_by_number_or_in_natural_order(folder: pathlib.Path, numbered: bool) -> None:
    (folder / "m.pte").write_bytes(many_inputs())
    prefix = "input" if numbered else "x"
    tensors = {f"{prefix}_{i}": np.full(2, i, np.float16) for i in range(11)}
    for i, (name, value) in enumerate(scalars().items()):
        tensors[f"input_{13 + i}" if numbered else f"y_{i}_{name}"] = value
    save_file(tensors, folder / "x.safetensors")
    succeed(folder, *RUN)
    outputs = load_file(folder / "y.safetensors")
    assert {name: array.tolist() for name, array in outputs.items()} == {
        "output_0": [10, 10],
        "output_1": [0, 0],
        "output_2": 7,
        "output_3": 0.5,
        "output_6": [3, 4],
        "output_7_0": [1, 1],
        "output_8": True,
    }
    assert outputs["output_0"].dtype == np.float16
    assert b'"output_5":"text"' in (folder / "y.safetensors").read_bytes()


def test_channels_last(folder: pathlib.Path) -> None:
    program = copy_program(sizes=[2, 3, 4, 5], dim_order=[0, 2, 3, 1])
    (folder / "m.pte").write_bytes(program)
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    save_file({"x": x}, folder / "x.safetensors")
    succeed(folder, *RUN)
    y = load_file(folder / "y.safetensors")["output_0"]
    np.testing.assert_array_equal(y, x)


def test_bounded_shapes(folder: pathlib.Path) -> None:
    (folder / "m.pte").write_bytes(copy_program(sizes=[5, 3], bounded=True))
    succeed(folder, *RUN)
    y = load_file(folder / "y.safetensors")["output_0"]
    np.testing.assert_array_equal(y, X)
    succeed(folder, "--program=m.pte", "--outputs=y.safetensors")  # zeros of the largest size
    assert load_file(folder / "y.safetensors")["output_0"].shape == (5, 3)


def test_methods_in_one_session(folder: pathlib.Path) -> None:
    methods = (exchange_method("first"), exchange_method("second"))
    (folder / "m.pte").write_bytes(build_program(*methods))
    for name, value in (("a", 5), ("b", 3)):
        save_file({"x": np.full(2, value, np.float32)}, folder / f"{name}.safetensors")
    succeed(
        folder,
        "--program=m.pte",
        "--method=first,second",
        "--inputs=a.safetensors,b.safetensors",
        "--outputs=c.safetensors,d.safetensors",
    )
    assert load_file(folder / "c.safetensors")["output_0"].tolist() == [0, 0]
    assert load_file(folder / "d.safetensors")["output_0"].tolist() == [5, 5]


def test_repeat_prints_latency_and_memory(folder: pathlib.Path) -> None:
    text = succeed(folder, "--program=m.pte", "--repeat=20")
    assert re.search(r"forward: load \d+ us, first run \d+ us", text)
    number = r"\d+\.\d\d us"
    assert re.search(rf"median {number}, p10 {number}, p90 {number} over 20 runs", text)
    peak = re.search(r"process: peak memory (\d+) KiB", text)
    assert peak and 1024 < int(peak[1]) < 1024**2
    mapped = re.search(r"process: mapped files (\d+) KiB", text)
    own = 32 if RUNNER.endswith("_cuda") else 20  # MiB; with the kernels of three architectures
    assert mapped and 4 * 1024 < int(mapped[1]) < own * 1024  # no OpenBLAS, which has 25 MB


def test_prepare_leaves_the_state(folder: pathlib.Path) -> None:
    (folder / "m.pte").write_bytes(build_program(exchange_method("exchange")))
    save_file({"x": np.ones(2, np.float32)}, folder / "x.safetensors")
    succeed(folder, *RUN, "--method=exchange", "--prepare")
    assert load_file(folder / "y.safetensors")["output_0"].tolist() == [0, 0]


def test_the_output_is_that_of_the_first_run(folder: pathlib.Path) -> None:
    (folder / "m.pte").write_bytes(build_program(exchange_method("exchange")))
    save_file({"x": np.ones(2, np.float32)}, folder / "x.safetensors")
    succeed(folder, *RUN, "--method=exchange", "--repeat=3")
    assert load_file(folder / "y.safetensors")["output_0"].tolist() == [0, 0]


def test_describe(folder: pathlib.Path) -> None:
    method = exchange_method("exchange")
    y = method.planned([2])
    method.delegate("NoSuchBackend", y, y)
    (folder / "m.pte").write_bytes(build_program(method, *[MethodBuilder("empty")]))
    text = succeed(folder, "--program=m.pte", "--describe")
    for expected in (
        "program m.pte: ",
        "method exchange: 3 instructions",
        "input    0  float32[2], caller's memory",
        "output   0  float32[2]",
        "state       held: float32[2], 8 B",
        "delegate 0  NoSuchBackend, a backend that is not in this program",
        "kernel      aten::clone.out\n",
        "method empty: 0 instructions",
    ):
        assert expected in text
    refusal = fail(folder, "--program=m.pte", "--describe", "--allowed_backends=")
    assert "m.pte: it has delegates of these backends: NoSuchBackend; allowed are: none" in refusal


def test_what_a_file_says_is_no_command(folder: pathlib.Path) -> None:
    clear = "\x1b[2J\x1b]0;title\x07\x9b\r\n"
    method = MethodBuilder(f"method{clear}")
    x = method.tensor([2], buffer_name=f"state{clear}")
    method.delegate(f"backend{clear}", x)
    method.kernel(f"kernel{clear}::a.b", x)
    method.output(method.scalar_input(f"text{clear}"))
    (folder / "m.pte").write_bytes(build_program(method))
    text = succeed(folder, "--program=m.pte", "--describe")
    text += fail(folder, "--program=m.pte", "--allowed_backends=")
    text += fail(folder, "--program=m.pte", "--method=other")
    text += fail(folder, "--program=m.pte", f"--method=method{clear}")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text), text
    for name in ("method", "state", "backend", "kernel", "text"):
        assert rf"{name}\x1b[2J\x1b]0;title\x07\xc2\x9b\x0d\x0a" in text


def test_describe_and_run(folder: pathlib.Path) -> None:
    assert "method forward" in succeed(folder, *RUN, "--describe")
    assert (folder / "y.safetensors").exists()


def test_help(folder: pathlib.Path) -> None:
    text = succeed(folder, "--help")
    flags = ("program", "data", "method", "inputs", "outputs", "prepare", "repeat", "describe")
    for flag in flags:
        assert f"--{flag}" in text
    for line in text.splitlines():
        assert len(line) <= 100


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--program=none.pte",), "none.pte"),
        (("--program=x.safetensors",), "x.safetensors"),
        ((*RUN, "--method=backward"), 'no method "backward"; it has forward'),
        ((*RUN, "--data=none.ptd"), "none.ptd"),
        (("--program=m.pte", "--inputs=m.pte"), "no usable safetensors file"),
        (("--program=m.pte", "--outputs=no/y"), "cannot write no/y: No such file or directory"),
        (("--program=m.pte", "--outputs=."), "cannot write ."),
        ((*RUN, "--backend_option=X:a=1"), 'none of the methods to run uses backend "X"'),
        ((*RUN, "--repeat=-1"), "--repeat"),
        ((), "--program: missing"),
    ],
)
def test_errors(folder: pathlib.Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in fail(folder, *arguments)


@pytest.mark.parametrize(
    "tensors, message",
    [
        ({}, r"found no tensors; expected\n  input_0: float32\[2, 3\]"),
        ({"input_0": X, "input_1": X}, "found input_0, input_1; expected"),
        ({"input_1": X}, "found input_1; expected"),
        ({"x": X.astype(np.float64)}, "float64, expected float32"),
        ({"x": X[0]}, "1 dimensions"),
        ({"x": X[:, :2].copy()}, "dimension 1 is 2, expected 3"),
    ],
)
def test_wrong_inputs(folder: pathlib.Path, tensors: dict[str, np.ndarray], message: str) -> None:
    save_file(tensors, folder / "x.safetensors")
    assert re.search(message, fail(folder, *RUN))


def test_a_scalar_of_another_kind(folder: pathlib.Path) -> None:
    method = MethodBuilder()
    method.output(method.scalar_input(7))
    (folder / "m.pte").write_bytes(build_program(method))
    for wrong in (np.array(7.0), np.array(True), np.array([7])):
        save_file({"n": wrong}, folder / "x.safetensors")
        assert "input 0: found a" in fail(folder, *RUN)


def test_numbers_may_lie_anywhere_in_the_file(folder: pathlib.Path) -> None:
    method = MethodBuilder()
    method.output(method.scalar_input(True), method.scalar_input(0.5), method.scalar_input(7))
    (folder / "m.pte").write_bytes(build_program(method))
    header = json.dumps(
        {
            "input_0": {"dtype": "BOOL", "shape": [], "data_offsets": [0, 1]},
            "input_1": {"dtype": "F64", "shape": [], "data_offsets": [1, 9]},
            "input_2": {"dtype": "I64", "shape": [], "data_offsets": [9, 17]},
        }
    ).encode()
    data = struct.pack("<Q", len(header)) + header + struct.pack("<?dq", True, 0.5, 7)
    (folder / "x.safetensors").write_bytes(data)
    succeed(folder, *RUN)  # which refuses other numbers than the method was exported with


def test_a_failing_method_leaves_the_old_output(folder: pathlib.Path) -> None:
    (folder / "m.pte").write_bytes(divide_program())
    (folder / "y.safetensors").write_bytes(b"old")
    save_file({"n": np.array(0)}, folder / "x.safetensors")
    assert "division by zero" in fail(folder, *RUN)


def test_limits(folder: pathlib.Path) -> None:
    assert succeed(folder, *RUN, "--limits=run_time=10,planned_bytes=1000000,load_bytes=0") == ""
    (folder / "y.safetensors").unlink()
    assert "0 instructions" in fail(folder, *RUN, "--limits=instructions=0")
    assert "planned_bytes" in fail(folder, *RUN, "--limits", "planned_bytes=1")
    assert "run_time" in fail(folder, *RUN, "--limits=run_time=0")
    for wrong in (
        "",
        "x=1",
        "run_time",
        "run_time=x",
        "run_time=-1",
        "instructions=1.5",
        "load_bytes=-1",
    ):
        assert "--limits: found" in fail(folder, *RUN, f"--limits={wrong}")


def test_trace(folder: pathlib.Path) -> None:
    def kinds() -> list[str]:
        events = json.loads((folder / "t.json").read_text())["traceEvents"]
        return [event["cat"] for event in events if event["ph"] == "X"]

    succeed(folder, *RUN, "--trace=t.json")
    assert kinds() == ["load", "method", "kernel"]
    succeed(folder, *RUN, "--trace=t.json", "--repeat=5")
    assert kinds() == ["load", "method", "kernel"]
    result = run(folder, *RUN, "--trace=t.json", "--limits=run_time=0")
    assert result.returncode == 1 and "run_time" in result.stderr
    assert kinds() == ["load", "method"]
    assert "none/t.json" in fail(folder, *RUN, "--trace=none/t.json")
