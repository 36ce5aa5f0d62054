"""The shims under test, and random inputs that can be had again.

The seed is printed; PTERON_TEST_SEED repeats a run.
"""

import os
import pathlib
import random

import pytest
import torch

from pteron.backends.cpu.runtime.tests.shim_caller import ShimLibrary


@pytest.fixture(scope="module")
def shims() -> ShimLibrary:
    """The library beside this package, as the runtime finds it."""
    beside = pathlib.Path(__file__).parent.parent / "libcpu_backend.so"
    return ShimLibrary(os.environ.get("PTERON_CPU_BACKEND_LIBRARY", str(beside)))


@pytest.fixture(autouse=True)
def seed() -> None:
    number = int(os.environ.get("PTERON_TEST_SEED", random.randrange(2**31)))
    print(f"PTERON_TEST_SEED={number}")
    random.seed(number)
    torch.manual_seed(number)
