"""pteron inspect --advisories: a file of an earlier lowering says what may be wrong with it."""

import json
from pathlib import Path

import pytest
import torch

import pteron
from pteron.backends.aoti import payload
from pteron.command.main import main


def _inspect(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    capsys.readouterr()
    assert main(["pteron", "inspect", str(path), "--advisories", *options]) == 0
    return capsys.readouterr().out


def test_bugs_of_the_version_that_made_the_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for version in (0, 2, payload.LOWERING_VERSION):
        monkeypatch.setattr(payload, "LOWERING_VERSION", version)
        model = torch.nn.Linear(4, 2 + version).eval()  # or the code is that of the one before
        path = tmp_path / "model.pte"
        pteron.export(model, (torch.ones(1, 4),), path)
        found.append(_inspect(path, capsys, "--nojson").splitlines())
        as_json = json.loads(_inspect(path, capsys, "--json"))
        assert (as_json or ["none known"]) == found[-1]
    assert any("assignment to it under a mask" in line for line in found[1])
    assert set(found[1]) < set(found[0])
    assert found[2] == ["none known"]
