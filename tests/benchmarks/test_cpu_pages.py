"""The README and docs/cpu_times.md say what the committed rows say."""

from pathlib import Path

import pytest

from tests.benchmarks.cpu_pages import PAGE, README, ROWS, geometric_mean, page, readme, times
from tests.benchmarks.results import Row, read_rows, write_rows


@pytest.fixture(name="rows")
def _rows() -> list[Row]:
    return read_rows(ROWS)


def test_each_row_says_where_it_is_from(rows: list[Row]) -> None:
    keys = {"commit", "date", "cpu", "isa", "cores", "threads", "versions", "version"}
    assert rows
    for row in rows:
        assert keys <= row.keys(), row
        assert {"median_ms", "failed"} & row.keys(), row
        package, version = row["version"].split()
        assert package == "pteron" or row["versions"][package] == version, row
        assert row["versions"]["torch"], row
        assert "dirty" not in row["commit"] + row["version"], row


def test_the_readme_is_of_these_rows(rows: list[Row]) -> None:
    text = Path(README).read_text(encoding="utf-8")
    assert readme(text, rows) == text, "tools/bazel run //tests/benchmarks:cpu_pages"


def test_the_page_is_of_these_rows(rows: list[Row]) -> None:
    text = Path(PAGE).read_text(encoding="utf-8")
    assert page(rows) == text, "tools/bazel run //tests/benchmarks:cpu_pages"


def test_another_time_is_another_readme(rows: list[Row]) -> None:
    text = Path(README).read_text(encoding="utf-8")
    changed = [{**row, "median_ms": 2 * row.get("median_ms", 1)} for row in rows]
    assert readme(text, changed) != text and page(changed) != page(rows)
    with pytest.raises(ValueError, match="expected one line that starts with"):
        readme("", rows)


def test_a_ratio_is_to_the_fastest_peer_that_has_a_time(tmp_path: Path) -> None:
    rows = [
        {"model": model, "way": way, "median_ms": ms}
        for model, of in {
            "a": {"pteron": 1.0, "onnxruntime": 4.0, "openvino": 2.0},
            "b": {"pteron": 4.0, "onnxruntime": 2.0},
            "c": {"onnxruntime": 2.0},
            "d": {"pteron": 1.0},
        }.items()
        for way, ms in of.items()
    ]
    rows.append({"model": "b", "way": "openvino", "failed": "wrong", "median_ms": 0.1})
    write_rows(tmp_path / "rows.jsonl", rows)
    found = times(read_rows(tmp_path / "rows.jsonl"))
    assert geometric_mean(found) == pytest.approx(1.0)
    assert read_rows(tmp_path / "none.jsonl") == read_rows("") == []
