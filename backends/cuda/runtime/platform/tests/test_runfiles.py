"""A library opened by Python finds its runfiles, however Python was started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).pteron_find_toy())"


@pytest.mark.parametrize("runfiles", [None, "/nowhere"])
def test_the_runfiles_around_a_library_are_looked_at(runfiles: str | None) -> None:
    library = Path(__file__).parent / "libfinder.so"
    environment = {k: v for k, v in os.environ.items() if k != "RUNFILES_DIR"}
    if runfiles:
        environment["RUNFILES_DIR"] = runfiles
    command = [sys.executable, "-c", _SCRIPT, str(library)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "1"
