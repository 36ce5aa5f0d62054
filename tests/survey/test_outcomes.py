"""Outcomes on disk, in the table and in the summary; configurations made small."""

from pathlib import Path

import pytest

from pteron.exir.explain import MethodReport, PartitionReport, ProgramReport
from tests.survey.examine import _on_cpu
from tests.survey.outcome import ABSENT, STEPS, Outcome, read, write
from tests.survey.shrink import shrink
from tests.survey.table import summary, table

_REFUSED = "UnsupportedOperatorsError: not these operators:\n  aten.x.default  x2  %x in 'forward'"
_OUTCOMES = [
    Outcome("fine", "cpu", list(STEPS), error=2e-7, seconds={"lowers": 2.0, "runs": 1.4}),
    Outcome("refused", "cpu", ["builds", "exports"], _REFUSED),
    Outcome("also_refused", "cpu", ["builds", "exports"], _REFUSED.replace("x2", "x3")),
    Outcome("not_exported", "cpu", ["builds"], "Error: at 0x7f | b"),
    Outcome("gone", "cpu", [], ABSENT),
]


def test_outcomes_are_kept(tmp_path: Path) -> None:
    for outcome in _OUTCOMES:
        write(outcome, tmp_path)
    assert read(tmp_path, ["fine", "nowhere", "refused"], "cpu") == _OUTCOMES[:2]
    assert read(tmp_path, ["fine"], "cuda") == []


def test_the_table_has_a_line_for_each() -> None:
    lines = table(_OUTCOMES).splitlines()
    assert len(lines) == 2 + 4
    assert lines[2] == "| fine | yes | yes | yes | yes | yes | 2e-07 |  | 3 |  |"
    assert lines[3].startswith("| refused | yes | yes | no |  |  |  |  | 0 | UnsupportedOp")
    assert "0x7f \\| b" in lines[5]


def test_what_is_left_to_the_cpu_has_a_column() -> None:
    on_gpu = [
        Outcome("all", "cuda", list(STEPS), error=2e-7, on_cpu=0),
        Outcome("most", "cuda", list(STEPS), error=2e-7, on_cpu=3),
    ]
    first, second = table(on_gpu).splitlines()[2:]
    assert first.endswith("| 2e-07 | 0 | 0 |  |") and second.endswith("| 2e-07 | 3 | 0 |  |")
    assert "* 1 leave 3 calls of operators to the CPU" in summary(on_gpu)


@pytest.mark.parametrize(("backend", "count"), [("CudaBackend", 0), ("CpuBackend", 3)])
def test_calls_of_other_partitions_are_counted(backend: str, count: int) -> None:
    counts = {"aten.add.Tensor": 2, "aten.sort.default": 1}
    partition = PartitionReport("m", "t", backend, counts, [], [], [], 0, 0, {})
    method = MethodReport("forward", [], [], [], [partition], {}, {}, 0)
    assert _on_cpu(ProgramReport([method], [])) == count


def test_the_summary_counts_reasons() -> None:
    first, refused, exports = summary(_OUTCOMES).splitlines()
    assert first == "5 models, 1 of them absent; of 4, 3 export; of these 1 match, 33.3%"
    assert refused.startswith("* 2 do not pass `lowers`: ") and "aten.x.default" in refused
    assert refused.endswith("(refused, also_refused)")
    assert exports.startswith("* 1 do not pass `exports`: Error: at N")


def test_fields_are_made_small_by_their_names() -> None:
    fields = {
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "image_token_id": 128001,
        "eos_token_id": 2,
        "layer_types": ["sliding"] * 3 + ["full"] + ["sliding"] * 28,
        "vision_config": {"depth": 24, "image_size": 224, "patch_size": 16, "use_bias": True},
        "rope_theta": 10000.0,
    }
    assert shrink(fields) == {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 100,
        "image_token_id": 99,
        "eos_token_id": 2,
        "layer_types": ["sliding", "full"],
        "vision_config": {"depth": 2, "image_size": 64, "patch_size": 16, "use_bias": True},
        "rope_theta": 10000.0,
    }
