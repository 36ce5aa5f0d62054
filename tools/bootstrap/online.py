"""Finds an installed Bazel that can reach its module registry."""

from __future__ import annotations

import re
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

# Bazel's own default for --registry.
REGISTRY = "https://bcr.bazel.build"

_ENTRY = Path(__file__).parents[1] / "bazel"
_OLDEST = (7, 7)
_TOO_NEW = (9, 0)


def find_bazel(timeout: float = 3.0) -> str | None:
    """The program to use, or None.

    bazelisk picks the version in .bazelversion, so it is always suitable; a bazel must be 7.7 or
    newer and older than 9. The registry is queried only if there is such a program.

    Args:
        timeout: seconds to wait for the module registry.
    """
    program = shutil.which("bazelisk") or _suitable(shutil.which("bazel"))
    if program and registry_reachable(timeout):
        return program
    return None


def registry_reachable(timeout: float) -> bool:
    try:
        with urllib.request.urlopen(f"{REGISTRY}/bazel_registry.json", timeout=timeout):
            return True
    except (urllib.error.URLError, OSError):
        return False


def parse_version(output: str) -> tuple[int, int] | None:
    """(major, minor) in what `bazel --version` prints."""
    match = re.match(r"bazel (\d+)\.(\d+)", output)
    return (int(match.group(1)), int(match.group(2))) if match else None


def _suitable(bazel: str | None) -> str | None:
    # The folder tools/ may be on PATH.
    if bazel is None or Path(bazel).samefile(_ENTRY):
        return None
    try:
        done = subprocess.run(
            [bazel, "--version"], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = parse_version(done.stdout)
    return bazel if version and _OLDEST <= version < _TOO_NEW else None
