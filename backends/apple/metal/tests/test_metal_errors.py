"""What those get to read who use the backend wrongly."""

import pathlib

import pytest
import torch
from torch import nn

from pteron.backends.apple.metal.tests.programs import lower, save
from pteron.runtime import PteronError, Runtime
from tests.models.sample import randn


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    torch.manual_seed(0)
    exported = torch.export.export(nn.Linear(8, 8).eval(), (randn(0, 1, 8),))
    return save(lower(exported), tmp_path_factory.mktemp("program"))


def test_without_a_device_the_error_says_which_there_are(program: pathlib.Path) -> None:
    assert not Runtime.get().backend_registry.is_available("MetalBackend")
    with pytest.raises(PteronError, match="wants a Metal device.*there is the CPU"):
        Runtime.get().load_program(program).load_method("forward")
