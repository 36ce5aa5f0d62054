"""A torch that lowering does not work with is refused before any work is done."""

from typing import NoReturn

import pytest
import torch
import torch._inductor.compile_fx  # first: Inductor's modules import each other
from torch._inductor import ir

from pteron.backends.aoti import inductor
from pteron.backends.cpu import CpuOptions, CpuPartitioner
from pteron.backends.cpu.cpu_backend import CpuBackend
from pteron.exir import to_edge
from pteron.exir.backend.backend_api import to_backend


@pytest.fixture
def unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "9.9.0")
    monkeypatch.delattr(ir, "WhileLoop")

    def generate(*args: object, **kwargs: object) -> NoReturn:
        raise AssertionError("work was done")

    monkeypatch.setattr(inductor, "generate_variants", generate)


@pytest.mark.usefixtures("unsupported")
def test_a_partitioner_is_refused() -> None:
    with pytest.raises(inductor.UnsupportedTorch, match=r"ir\.WhileLoop is gone"):
        CpuPartitioner()


def test_a_partition_is_refused(request: pytest.FixtureRequest) -> None:
    program = torch.export.export(torch.nn.Linear(4, 3).eval(), (torch.randn(2, 4),))
    edge = to_edge(program).exported_program()
    specs = [
        *CpuOptions().to_compile_specs(),
        CpuBackend.generate_method_name_compile_spec("forward"),
    ]
    request.getfixturevalue("unsupported")
    with pytest.raises(inductor.UnsupportedTorch, match=r"ir\.WhileLoop is gone"):
        to_backend(CpuBackend.__name__, edge, specs)
