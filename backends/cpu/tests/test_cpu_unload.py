"""What loading and running takes, unloading gives back: memory, files, mappings, threads."""

import ctypes
import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from pteron.backends.cpu import CpuPartitioner
from pteron.exir import to_edge_transform_and_lower
from pteron.runtime import Runtime

_CYCLES = 10_000


class Net(nn.Module):
    """State, weights, and code that allocates."""

    steps: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 32)
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        values, _ = torch.sort(self.linear(x).relu())
        return values.cumsum(-1) + self.steps


class _Mallinfo2(ctypes.Structure):
    _fields_ = [(f"field{i}", ctypes.c_size_t) for i in range(10)]


def _measure() -> dict[str, int]:
    gc.collect()
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Mallinfo2
    memory = mallinfo()
    maps = Path("/proc/self/maps").read_text().splitlines()
    return {
        "bytes of malloc": memory.field7 + memory.field4,
        "resident pages": int(Path("/proc/self/statm").read_text().split()[1]),
        "mappings": len(maps),
        "mapped code of models": sum("pteron_model" in line for line in maps),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "threads of Python": threading.active_count(),
    }


def test_ten_thousand_cycles_leave_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    torch.manual_seed(0)
    net = Net().eval()
    path = tmp_path / "model.pte"
    program = torch.export.export(net, (torch.randn(4, 16),))
    edge = to_edge_transform_and_lower(program, partitioner=[CpuPartitioner()])
    edge.to_executorch().save(path)
    x = torch.randn(4, 16)
    net.steps.zero_()
    expected = net(x)

    def cycle() -> torch.Tensor:
        method = Runtime.get().load_program(path).load_method("forward")
        (found,) = method.execute([x])
        return found

    for _ in range(1000):
        torch.testing.assert_close(cycle(), expected)
    before = _measure()
    for _ in range(_CYCLES):
        found = cycle()
    torch.testing.assert_close(found, expected)
    after = _measure()
    grown = {name: after[name] - before[name] for name in before}
    record_property("grown", grown)
    # A byte of malloc (a leak is 32 at least) and a hundredth of a page a cycle: caches that fill.
    limits = {"bytes of malloc": _CYCLES, "resident pages": _CYCLES // 100, "mappings": 8}
    assert {name: by for name, by in grown.items() if by > limits.get(name, 0)} == {}, grown
