"""ExecuTorch's Inspector reads profiles that `pteron bench --etdump` writes."""

import json
from pathlib import Path

import pytest
import torch
from executorch.devtools import Inspector

import pteron
from pteron.command.etdump import etdump
from tests.oracle.programs import Attention


def test_the_inspector_reads_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.randn(2, 3, 8)
    pteron.export(Attention(), (x,), tmp_path / "model.pte")
    method = pteron.Runtime.get().load_program(tmp_path / "model.pte").load_method("forward")
    profile = method.profile(x)
    file = tmp_path / "profile.etdp"
    etdump(profile, "forward").save(file)

    inspector = Inspector(
        etdump_path=str(file), delegate_metadata_parser=lambda texts: json.loads(texts[0])
    )
    (block,) = inspector.event_blocks
    assert block.name == "forward"
    inside = {"compiled", "shim"}
    assert {row["kind"] for row in profile.rows} >= {"method", "delegate", *inside}
    for event, row in zip(block.events, profile.rows, strict=True):
        assert event.perf_data is not None
        assert event.perf_data.raw[0] == pytest.approx(row["dur_us"] / 1e3, abs=2e-6)
        assert event.is_delegated_op is (row["kind"] in inside)
        name = row["name"] if row["kind"] != "method" else "Method::execute"
        assert event.name == name
        if row["kind"] in inside:
            assert event.delegate_debug_metadatas[0]["op"] == row["op"]
    inspector.print_data_tabular()
    assert "Method::execute" in capsys.readouterr().out
