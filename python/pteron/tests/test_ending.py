"""Ctrl-C and SIGTERM while a model is exported: it ends at once and leaves nothing."""

import signal
import time
from pathlib import Path

import pytest

from tests.pool.processes import begin, marked, processes_with

MODEL = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(12))
    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = torch.softmax(layer(x) * i, -1) + torch.nn.functional.layer_norm(x, (256,))
            x = x.cumsum(0) + torch.sort(x, 0)[0]
        return x
def model():
    return Model().eval()
def example_inputs():
    return (torch.randn(8, 256),)
def build():
    return model(), example_inputs()
"""
SCRIPT = """
import sys
sys.path.insert(0, ".")
import made, pteron
print("begun", flush=True)
pteron.export(made.model(), made.example_inputs(), "model.pte")
print("done", flush=True)
"""
COMMAND = """
import sys
from pteron.command.main import main
sys.argv = ["pteron", "export", "made.py:build", "-o", "model.pte"]
print("begun", flush=True)
sys.exit(main())
"""


def is_compiling(mark: str) -> bool:
    return any("cc1plus" in line for line in processes_with(mark).values())


mark = pytest.fixture(marked)


@pytest.mark.parametrize(
    ("script", "number", "moment", "code"),
    [
        (SCRIPT, signal.SIGINT, "compiling", -signal.SIGINT),
        (SCRIPT, signal.SIGINT, "later", -signal.SIGINT),
        (SCRIPT, signal.SIGINT, "early", -signal.SIGINT),
        (SCRIPT, signal.SIGTERM, "compiling", -signal.SIGTERM),
        (SCRIPT, signal.SIGTERM, "later", -signal.SIGTERM),
        (COMMAND, signal.SIGINT, "compiling", 130),
        (COMMAND, signal.SIGTERM, "compiling", 143),
    ],
    ids=lambda value: "" if isinstance(value, str) and "\n" in value else None,
)
def test_an_export_ends(
    mark: str, script: str, number: signal.Signals, moment: str, code: int, tmp_path: Path
) -> None:
    (tmp_path / "made.py").write_text(MODEL)
    process = begin(mark, script, folder=tmp_path)
    if moment == "early":
        time.sleep(1)
    else:
        until = time.monotonic() + 60
        while not is_compiling(mark):
            assert time.monotonic() < until
            time.sleep(0.02)
        if moment == "later":
            time.sleep(5)
    sent = time.monotonic()
    process.send_signal(number)
    out, errors = process.communicate(timeout=60)
    seconds = time.monotonic() - sent
    assert not (tmp_path / "model.pte").exists(), "the export was over too soon for this test"
    assert process.returncode == code, errors
    assert seconds < 10, (seconds, errors)  # 1 s on a machine that does nothing else
    until = time.monotonic() + 1
    while processes_with(mark) and time.monotonic() < until:
        time.sleep(0.02)
    assert not processes_with(mark)
    assert not [*tmp_path.rglob(".new-*"), *tmp_path.rglob("*.pte"), *tmp_path.rglob("*.part")]
