"""`pteron export --ray`: on the cluster of the other tests, and without one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from absl.testing import flagsaver

from pteron.command import export
from pteron.command.main import main

_MODEL = """\
import os, signal, torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        return {"y": self.linear(x).relu()}

def build():
    return Net().eval(), (torch.ones(2, 4),)
"""
_FAILS = _MODEL.replace("    return Net", "    raise KeyError('weights')\n    return Net")
_DIES = _MODEL.replace("    return Net", "    os.kill(os.getpid(), signal.SIGKILL)\n    return Net")
_LINES = """\
# One model with several options, and others.
model.py:build -o plain.pte
model.py:build -o beside.pte --option=cpu.save_data_externally=true

fails.py:build -o fails.pte --constant='labels=["a", "b"]'  # quoted as for a shell
dies.py:build -o dies.pte
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in (("model", _MODEL), ("fails", _FAILS), ("dies", _DIES)):
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "models.txt").write_text(_LINES)
    monkeypatch.chdir(tmp_path)
    saved = flagsaver.save_flag_values(export.FLAGS)
    yield tmp_path
    flagsaver.restore_flag_values(saved, export.FLAGS)


def _jobs(capsys: pytest.CaptureFixture[str], expected: int) -> tuple[dict[str, Any], str]:
    """What `--json` says by program, and stderr."""
    export.FLAGS.unparse_flags()
    assert main(["pteron", "export", "--ray=models.txt", "--json"]) == expected
    out, err = capsys.readouterr()
    return {job["output"]: job for job in json.loads(out)}, err


def test_one_that_fails_does_not_end_the_others(
    cluster: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs, err = _jobs(capsys, 1)
    states = {name: job["state"] for name, job in jobs.items()}
    plain, beside, fails, dies = "plain.pte", "beside.pte", "fails.pte", "dies.pte"
    assert states == {plain: "done", beside: "done", fails: "FAILED", dies: "FAILED"}
    assert "KeyError: 'weights'" in jobs[fails]["error"]
    assert "died" in jobs[dies]["error"]
    assert [jobs[name]["line"] for name in (plain, beside, fails, dies)] == [2, 3, 5, 6]
    assert "2 of 4 programs could not be lowered" in err
    written = {path.name for path in folder.iterdir() if path.suffix != ".py"}
    records = {"plain.report.json", "beside.report.json"}
    assert written - {"__pycache__"} == {"models.txt", plain, beside, "beside.ptd", *records}
    report = json.loads((folder / "beside.report.json").read_text())
    assert {f: (folder / f).stat().st_size for f in report["files"]} == report["files"]
    # The same bytes as without Ray.
    export.FLAGS.unparse_flags()
    assert main(["pteron", "export", "model.py:build", "-o", "alone.pte"]) == 0
    assert (folder / "alone.pte").read_bytes() == (folder / plain).read_bytes()
    capsys.readouterr()

    # The next run does what is left, and what was changed.
    (folder / "fails.py").write_text(_MODEL)
    (folder / "beside.pte").unlink()
    before = (folder / plain).stat()
    jobs, _ = _jobs(capsys, 1)
    states = {name: job["state"] for name, job in jobs.items()}
    assert states == {plain: "kept", beside: "done", fails: "done", dies: "FAILED"}
    assert (folder / plain).stat() == before
    (folder / "dies.py").write_text(_MODEL)
    export.FLAGS.unparse_flags()
    assert main(["pteron", "export", "--ray=models.txt"]) == 0
    rows = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    # The cluster may still say something of the process that died.
    assert rows[rows.index(["line", "program", "state"]) + 1 :] == [
        ["2", plain, "kept"],
        ["3", beside, "kept"],
        ["5", fails, "kept"],
        ["6", dies, "done"],
    ]


def test_a_run_that_was_killed_goes_on_without_a_cluster(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cluster of its own, of one process at a time, whose driver dies after the first program."""
    (folder / "models.txt").write_text(
        "\n".join(f"model.py:build -o {name}.pte" for name in ("first", "second", "third"))
    )
    places = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)), "RAY_ADDRESS": "local"}
    command = [sys.executable, "-P", "-m", "pteron.command.main", "export", "--ray=models.txt"]

    def start() -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        everything = [*command, '--ray-options={"num_cpus": 2}']
        environment = {**os.environ, **places, "RAY_USAGE_STATS_ENABLED": "0"}
        return subprocess.Popen(everything, env=environment, stdout=pipe, stderr=pipe, text=True)

    process = start()
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("1 of 3"):
            break
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert said[-1].endswith("done\n"), said
    out, err = start().communicate(timeout=300)
    states = [line.split()[2] for line in out.splitlines()[1:]]
    assert states.count("kept") in (1, 2) and set(states) == {"kept", "done"}, (out, err)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ray=no.txt"], ["No such file"]),
        (["--ray=empty.txt"], ["empty.txt: no line with a model"]),
        (["--ray=models.txt", "model.py:build"], ["found model.py:build beside --ray"]),
        (["--ray=models.txt", "-o", "x.pte"], ["found --output beside --ray"]),
        (["--ray=models.txt", "--ray-options=[]"], ["expected an object of JSON"]),
        (["--ray=models.txt", "--ray-options=x"], ["--ray-options=x: expected JSON"]),
        (
            ["--ray=wrong.txt"],
            [
                "line 1: found arguments: none",
                "line 2: expected one model, -o model.pte",
                "line 3: Unknown command line flag 'ouput'",
                "line 5: a.pte is the output of line 4, too",
                "line 6: No closing quotation",
            ],
        ),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_lowered(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: list[str]
) -> None:
    (folder / "empty.txt").write_text("# nothing\n")
    (folder / "wrong.txt").write_text(
        "-o x.pte\nmodel.py:build\nmodel.py:build --ouput=x.pte\n"
        "model.py:build -o a.pte\nmodel.py:build -o a.pte\nmodel.py:build -o 'b.pte\n"
    )
    export.FLAGS.unparse_flags()
    assert main(["pteron", "export", *arguments]) in (1, 2)
    err = capsys.readouterr().err
    assert [text for text in said if text not in err] == [], err
    assert not list(folder.glob("*.pte"))
