"""What those get to read who use the backend wrongly."""

import pathlib

import pytest
import torch
from torch import nn

from pteron.backends.apple.metal import MetalPartitioner
from pteron.backends.apple.metal.tests.programs import lower, open_recording_device, save
from pteron.runtime import PteronError, Runtime
from tests.models.sample import randn


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    torch.manual_seed(0)
    exported = torch.export.export(nn.Linear(8, 8).eval(), (randn(0, 1, 8),))
    return save(lower(exported), tmp_path_factory.mktemp("program"))


@pytest.fixture(scope="module")
def mac_program(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    exported = torch.export.export(nn.Linear(8, 8).eval(), (randn(0, 1, 8),))
    return save(lower(exported, [MetalPartitioner()]), tmp_path_factory.mktemp("mac"))


def test_without_a_device_the_error_says_which_there_are(
    program: pathlib.Path, mac_program: pathlib.Path
) -> None:
    assert not Runtime.get().backend_registry.is_available("MetalBackend")
    for each in (program, mac_program):
        with pytest.raises(PteronError, match="wants a Metal device.*this is linux.*is the CPU"):
            Runtime.get().load_program(each).load_method("forward")


def test_code_for_macos_is_not_opened_here(mac_program: pathlib.Path) -> None:
    open_recording_device()
    with pytest.raises(PteronError, match="code is for macos-arm64 and this is linux-"):
        Runtime.get().load_program(mac_program).load_method("forward")
