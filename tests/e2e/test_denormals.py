"""Numbers too small for full precision are computed, or taken as zero where a user says so."""

import pathlib
from typing import Any

import pytest
import torch

from pteron.backends.cpu import CpuOptions
from pteron.runtime import InvalidArgumentError
from tests.e2e.lowering import lower_to_file
from tests.models.cases import Applies


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """For four threads, which each have enough to do."""
    shrinks = Applies(lambda x: x * 1e-12)
    exported = torch.export.export(shrinks, (torch.ones(400_000),))
    path: pathlib.Path = tmp_path_factory.mktemp("denormals") / "model.pte"
    return lower_to_file(exported, path, CpuOptions(num_threads=4))


@pytest.mark.parametrize("flush", [False, True])
def test_every_thread_does_as_it_is_told(program: Any, flush: bool) -> None:
    options = {"CpuBackend": {"num_threads": 4, "flush_denormals": flush}}
    method = program.load_method("forward", backend_options=options)
    x = torch.full((400_000,), 1e-30)
    for _ in range(3):
        (found,) = method.execute([x])
        assert torch.equal(found == 0, torch.full(x.shape, flush))
        assert (x[:10] * 1e-12 != 0).all(), "the caller's own arithmetic is as before"


def test_other_values_are_refused(program: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="flush_denormals: expected true or false"):
        program.load_method("forward", backend_options={"CpuBackend": {"flush_denormals": 1}})
