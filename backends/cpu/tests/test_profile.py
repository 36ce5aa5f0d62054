"""Profiles of compiled code: what is recorded, from where, and that results are the same."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from pteron.backends.cpu import CpuOptions, CpuPartitioner
from pteron.exir import to_edge_transform_and_lower
from pteron.runtime import InvalidArgumentError, Method, Profile, PteronError, Runtime

FILE = Path(__file__).name


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(64, 96)
        self.norm = torch.nn.LayerNorm(96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x)).relu()


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values, _ = torch.sort(self.block(x))
        self.steps += 1
        return values.cumsum(-1)


def lowered(
    module: torch.nn.Module, *args: torch.Tensor, batch: bool = True, **options: bool
) -> bytes:
    shapes = ({0: torch.export.Dim("batch", min=2, max=4096)},) if batch else None
    program = torch.export.export(module.eval(), args, dynamic_shapes=shapes)
    edge = to_edge_transform_and_lower(program, partitioner=[CpuPartitioner(CpuOptions(**options))])
    return edge.to_executorch().buffer


@pytest.fixture(scope="module")
def program() -> bytes:
    return lowered(Net(), torch.randn(8, 64))


def load(program: bytes) -> Method:
    return Runtime.get().load_program(program).load_method("forward")


def calls(profile: Profile) -> list[dict]:
    return [row for row in profile.rows if row["kind"] in ("compiled", "shim")]


def test_kernels_and_shims_have_names_origins_and_shapes_of_the_call(program: bytes) -> None:
    method = load(program)
    for batch in (8, 3000):
        profile = method.profile(torch.randn(batch, 64))
        by_op = {row["op"]: row for row in calls(profile)}
        sort = by_op["aten.sort.stable"]
        assert (sort["kind"], sort["name"]) == ("shim", "aoti_torch_cpu_sort_stable")
        assert sort["shapes"].split(" int64")[0].endswith(f"float32[{batch}, 96]")
        assert sort["shapes"].endswith(f"int64[{batch}, 96]")  # of an output
        assert sort["bytes"] == batch * 96 * (4 + 4 + 8)
        (linear,) = (row for op, row in by_op.items() if op.startswith("aten.addmm"))
        assert (linear["kind"], linear["module"]) == ("compiled", "block.linear")
        assert linear["source"].startswith(f"{FILE}:")
        assert f"float32[{batch}, 64]" in linear["shapes"]
        assert any("block.norm" in row["module"] for row in by_op.values())


def test_times_are_nested_and_add_up(program: bytes) -> None:
    method = load(program)
    x = torch.randn(4096, 64)
    method(x)
    profile = method.profile(x)
    (whole,) = (row for row in profile.rows if row["kind"] == "method")
    (delegate, *_) = (row for row in profile.rows if row["kind"] == "delegate")
    assert profile.total_us == whole["dur_us"] >= delegate["dur_us"] > 0
    end = 0.0
    for row in calls(profile):
        assert row["start_us"] >= end  # one after the other
        end = row["start_us"] + row["dur_us"]
        assert row["dur_us"] > 0 and row["cpu_us"] > 0 and row["thread"] == whole["thread"]
        # A thread takes no more CPU time than there is; clocks are read one after the other.
        assert row["cpu_us"] <= row["dur_us"] * row["threads"] + 20
    assert end <= whole["start_us"] + whole["dur_us"]
    assert sum(row["dur_us"] for row in calls(profile)) > whole["dur_us"] / 2
    assert max(row["value"] for row in profile.memory) >= 4096 * 96 * 4
    assert profile.memory[-1]["value"] == 0


def test_other_threads_are_counted(program: bytes) -> None:
    if torch.get_num_threads() < 2:
        pytest.skip("one processor")
    method = load(program)
    x = torch.randn(4096, 64)
    rows = [row for _ in range(20) for row in calls(method.profile(x))]
    assert max(row["threads"] for row in rows) > 1
    assert any(row["cpu_us"] > 1.2 * row["dur_us"] for row in rows)


def test_results_are_those_of_a_call(program: bytes) -> None:
    profiled, called = load(program), load(program)
    for batch in (2, 8, 100):
        x = torch.randn(batch, 64)
        assert torch.equal(profiled.profile(x).outputs, called(x))
    for method in (profiled, called):
        assert method.session().state["steps"] == 3


def test_a_call_after_a_profile_records_nothing(program: bytes) -> None:
    method, x = load(program), torch.randn(8, 64)
    before = method.profile(x)
    method(x)
    assert len(method.profile(x).rows) == len(before.rows)


def test_two_profiles_at_once_do_not_mix(program: bytes) -> None:
    """And a call beside them, of the same code, is in neither."""
    start = threading.Barrier(3)
    found: dict[int, list[Profile]] = {}

    def profile(batch: int) -> None:
        method, x = load(program), torch.randn(batch, 64)
        start.wait()
        found[batch] = [method.profile(x) for _ in range(30)]

    def call() -> None:
        method, x = load(program), torch.randn(7, 64)
        start.wait()
        for _ in range(60):
            method(x)

    threads = [threading.Thread(target=profile, args=(batch,)) for batch in (5, 6)]
    threads.append(threading.Thread(target=call))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for batch, profiles in found.items():
        names = [[row["name"] for row in each.rows] for each in profiles]
        assert all(each == names[0] for each in names)
        for row in (row for each in profiles for row in calls(each)):
            sizes = {text.split(",")[0] for text in row["shapes"].split("[")[1:]}
            assert not sizes & ({"5", "6", "7"} - {str(batch)}), row


def test_a_run_that_fails_leaves_a_valid_profile() -> None:
    class Bad(torch.nn.Module):
        def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            return torch.sort(x)[0].index_select(0, i).cumsum(-1)

    method = load(lowered(Bad(), torch.randn(8, 4), torch.tensor([1]), batch=False))
    with pytest.raises(PteronError) as caught:
        method.profile(torch.randn(8, 4), torch.tensor([1000]))
    profile = caught.value.profile
    assert profile is not None and profile.outputs is None
    assert calls(profile)[0]["op"] == "aten.sort.stable"
    assert profile.total_us > 0
    assert str(profile)
    method.profile(torch.randn(8, 4), torch.tensor([2]))


def test_wrong_arguments_are_reported_as_by_a_call(program: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="float32"):
        load(program).profile(torch.randn(8, 65))


def test_the_saved_file_is_chromes_trace_format(program: bytes, tmp_path: Path) -> None:
    profile = load(program).profile(torch.randn(8, 64))
    profile.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "C"}
    assert all(event["args"]["kind"] == event["cat"] for event in events if event["ph"] == "X")
    with pytest.raises(OSError):
        profile.save(tmp_path / "none" / "trace.json")
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


def test_the_table_has_what_took_longest_first(program: bytes) -> None:
    profile = load(program).profile(torch.randn(8, 64))
    lines = profile.table().splitlines()
    times = [float(line.split()[0]) for line in lines[1:-2]]
    assert times == sorted(times, reverse=True) and len(times) == len(calls(profile))
    assert "in all" in lines[-1]
    assert len(profile.table(limit=1).splitlines()) == 5
    assert "others" in profile.table(limit=1)


def test_equal_programs_have_equal_bytes() -> None:
    torch.manual_seed(0)
    net, x = Net(), torch.randn(8, 64)
    assert lowered(net, x) == lowered(net, x)


@pytest.mark.parametrize("symbols", [False, True])
def test_kept_code_has_the_kernels_names(symbols: bool, tmp_path: Path) -> None:
    (tmp_path / "model.pte").write_bytes(lowered(Net(), torch.randn(8, 64), symbols=symbols))
    (tmp_path / "code").mkdir()
    script = """
import json, sys
import numpy as np
from pteron.runtime import Runtime
method = Runtime.get().load_program(sys.argv[1]).load_method("forward")
rows = method.profile(np.zeros((8, 64), np.float32)).rows
print(json.dumps([row["name"] for row in rows if row["kind"] == "compiled"]))
"""
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "model.pte")],
        env={**os.environ, "PTERON_CODE_FOLDER": str(tmp_path / "code")},
        capture_output=True,
        text=True,
        check=True,
    )
    kernels = json.loads(run.stdout)
    [code] = (tmp_path / "code").rglob("pteron_model_*")
    table = subprocess.run(["nm", str(code)], capture_output=True, text=True, check=True).stdout
    assert kernels
    for kernel in kernels:
        assert (f" {kernel}\n" in table) == symbols, table
