"""Runs the README's Python lines, as they stand there; compares what they compute with eager."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch


def test_the_lines_of_the_readme_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert lines
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "readme"}
    for block in lines:
        exec(compile(block, "README.md", "exec"), names)
    assert Path("model.pte").is_file()
    assert "model.pte" in capsys.readouterr().out
    (output,) = names["outputs"]
    torch.testing.assert_close(output, names["model"].eval()(names["x"]).detach())
