"""Files of ways are made once for a version; so are failures."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.cpu_files import make, without_paths


def test_files_are_made_once_for_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        way = command[4]
        ran.append(way)
        status = int(way == "iree")
        return subprocess.CompletedProcess(command, status, "", "Traceback\nE: no /a/b/c.py\n")

    monkeypatch.setattr(subprocess, "run", run)
    versions = {"eager": "torch 1", "iree": "iree 1", "pteron": "pteron 1-dirty"}
    for expected in (["eager", "iree", "pteron"], ["pteron"]):
        assert make("net", ["iree", "pteron"], versions, tmp_path, 2) == {"iree": "E: no c.py"}
        assert ran == expected  # a checkout with changes is like no other
        ran.clear()
    versions["iree"] = "iree 2"
    make("net", ["iree"], versions, tmp_path, 2)
    assert ran == ["iree"]


def test_a_message_has_no_folders() -> None:
    assert without_paths("in '/home/me/x.py', at 3/4 of https://a.b/c") == (
        "in 'x.py', at 3/4 of https://a.b/c"
    )
