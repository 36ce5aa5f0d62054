"""What explain() says of a program and what the runner says of its file: the same facts."""

import os
import pathlib
import re
import subprocess
from typing import Any

import pytest
import torch
from torch import nn

from pteron.backends.cpu import CpuOptions, CpuPartitioner
from pteron.exir import EdgeProgramManager, ExecutorchProgramManager, to_edge_transform_and_lower


class Scores(nn.Module):
    """Parts around an operator that is left out, which becomes a part of its own, and state."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.register_buffer("total", torch.zeros(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(self.linear(x).sum(0))
        return torch.relu(self.linear(x)) + self.total


@pytest.fixture(scope="module")
def edge() -> EdgeProgramManager:
    torch.manual_seed(0)
    exported = torch.export.export(Scores().eval(), (torch.randn(2, 64),))
    partitioner = CpuPartitioner(
        CpuOptions(isa="x86-64-v2", num_threads=2), leave_out=["aten.relu.default"]
    )
    with pytest.warns(UserWarning, match="relu .* is left out by request"):
        return to_edge_transform_and_lower(exported, partitioner=[partitioner])


@pytest.fixture(scope="module")
def program(edge: EdgeProgramManager) -> ExecutorchProgramManager:
    return edge.to_executorch()


def facts(text: str) -> dict[str, list[str]]:
    """Everything of each name, in order, whichever delegate or method says it."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        match = re.match(r" +(\w+) +(\S.*)", line)
        if match:
            name = match[1]
            found.setdefault(name, []).append(match[2])
        elif name and line.startswith("    "):
            found[name].append(line.strip())
    return found


def check(text: str, count: int) -> None:
    said = facts(text)
    assert said["isa"] == ["x86-64-v2"] * count and said["threads"] == ["2"] * count
    assert said["torch"] == [torch.__version__] * count
    assert all(re.match(r"packed, \d+ constants, \d+ bytes", w) for w in said["weights"])
    assert any("aten.addmm" in calls for calls in said["calls"])
    assert re.search(r"total.*float32\[64\]|float32\[64\].*total", text)


def check_boundary(text: str) -> None:
    """Why the two parts that the partitioner made are two."""
    lines = pathlib.Path(__file__).read_text().splitlines()
    line = 1 + next(i for i, text in enumerate(lines) if "torch.relu(self.linear" in text)
    relu = rf"%relu \(aten\.relu\.default, test_describe\.py:{line}\): aten\.relu\.default is left"
    boundary = "\n".join(facts(text)["boundary"])
    assert re.search(f"before {relu}", boundary) and re.search(f"after {relu}", boundary)


def test_explain_before_it_is_written(edge: EdgeProgramManager) -> None:
    text = str(edge.explain())
    check(text, 2)
    check_boundary(text)
    assert facts(text)["pending"][0] == "1 aten.relu: compiled by to_executorch"


def test_explain(program: ExecutorchProgramManager) -> None:
    text = str(program.explain())
    check(text, 3)
    assert "pending" not in facts(text) and "1 aten.relu" in facts(text)["calls"]
    assert "after lowered_module_0 of CpuBackend" in facts(text)["boundary"]
    assert "linear.weight" in text and "16.0 KiB" in text
    assert "x float32[2, 64]" in text


def test_the_runner_describes_the_file(
    program: ExecutorchProgramManager, tmp_path: pathlib.Path
) -> None:
    program.save(tmp_path / "scores.pte")
    runner = pathlib.Path(os.environ["RUNNER"]).resolve()
    command: list[Any] = [runner, f"--program={tmp_path / 'scores.pte'}", "--describe"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    check(done.stdout, 3)
    check_boundary(done.stdout)
    assert re.search(r"input +0  float32\[2, 64\]", done.stdout)
    assert 'spec      method_name = "forward"' in done.stdout
