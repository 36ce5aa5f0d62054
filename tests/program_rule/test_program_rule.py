"""What pteron_program_test says where the program's device is not there."""

import subprocess
from pathlib import Path


def test_it_says_that_nothing_was_compared() -> None:
    script = Path("tests/program_rule/test_sum_metal.sh").absolute()
    done = subprocess.run([script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "method 'forward' was not compared: MetalBackend cannot run here" in done.stderr
    assert "SKIPPED: this machine does not run the program." in done.stderr
