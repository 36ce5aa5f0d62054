"""Writes the README's rows of the CPU and docs/cpu_times.md from what //tests/benchmarks:cpu found.

    tools/bazel run //tests/benchmarks:cpu_pages

The rows are tests/benchmarks/cpu.jsonl; `test_cpu_pages` fails where a page says anything else.
"""

import os
import re
import statistics
from collections.abc import Mapping
from pathlib import Path

from absl import app

from tests.benchmarks.results import Row, read_rows

Times = Mapping[str, Mapping[str, float]]

ROWS = "tests/benchmarks/cpu.jsonl"
README = "README.md"
PAGE = "docs/cpu_times.md"

_OURS = "pteron"
_WAYS = {
    "pteron": "Pteron",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "xnnpack": "XNNPACK",
    "iree": "IREE",
    "torch.compile": "torch.compile",
    "eager": "eager",
}
_README_MODELS = {
    "resnet50": "ResNet-50, float32",
    "bert_base_128": "BERT-base, 128 tokens, float32",
    "efficientnet_b0": "EfficientNet-B0, float32",
}


def times(rows: list[Row]) -> dict[str, dict[str, float]]:
    """Median milliseconds by model and way, of those that have a time."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if "median_ms" in row and "failed" not in row:
            found.setdefault(row["model"], {})[row["way"]] = row["median_ms"]
    return found


def fastest(of: Mapping[str, float]) -> str | None:
    """The fastest peer of one model."""
    peers = {way: ms for way, ms in of.items() if not way.startswith(_OURS)}
    return min(peers, key=peers.__getitem__) if peers else None


def ratio(of: Mapping[str, float], way: str = _OURS) -> float | None:
    """The time of one of our ways over that of the fastest peer."""
    peer = fastest(of)
    return of[way] / of[peer] if peer and way in of else None


def geometric_mean(found: Times, way: str = _OURS) -> float | None:
    """Of the ratios of all models."""
    ratios = [r for of in found.values() if (r := ratio(of, way)) is not None]
    return statistics.geometric_mean(ratios) if ratios else None


def readme(text: str, rows: list[Row]) -> str:
    """The README with the rows of the CPU, and the line below its table, from `rows`.

    Raises:
        ValueError: it has no such line, or more than one.
    """
    found = times(rows)
    for model, title in _README_MODELS.items():
        of = found[model]
        peer = fastest(of)
        assert peer
        cells = [
            title,
            f"{_ms(of[_OURS])} ms",
            f"{_ms(of[peer])} ms, {_WAYS[peer]}",
            _machine(rows),
        ]
        text = _replace(text, f"| {title} |", f"| {' | '.join(cells)} |")
    dates = sorted(row["date"] for row in rows)
    line = (
        f"CPU: {' to '.join(dict.fromkeys((dates[0], dates[-1])))}, [{len(found)} models]({PAGE}),"
        f" geometric mean {geometric_mean(found):.2f} of the fastest peer."
    )
    return _replace(text, "CPU: ", line)


_PAGE = """\
# Time of a call on the CPU

Milliseconds, median; float32, random weights, default options of each, called from Python, all
outputs compared with eager. [`cpu.py`](../tests/benchmarks/cpu.py) says how it is measured;
[`full_size.py`](../tests/models/full_size.py) has the models. Written by `tools/bazel run
//tests/benchmarks:cpu_pages` from [rows](../tests/benchmarks/cpu.jsonl), which have commits and
versions, too.

{machine}:

{versions}

{table}

Geometric mean of the last column: {mean:.2f}. No time means that a peer could not run the model, or
was not measured; the row of an error has its message.
"""


def page(rows: list[Row]) -> str:
    """docs/cpu_times.md."""
    found = times(rows)
    ways = [way for way in _WAYS if any(way in of for of in found.values())]
    table = [["model", *(_WAYS[way] for way in ways), "Pteron / fastest peer"]]
    table.append(["---"] * len(table[0]))
    for model, of in found.items():
        quotient = ratio(of)
        cells = [_ms(of[way]) if way in of else "" for way in ways]
        table.append([model, *cells, "" if quotient is None else f"{quotient:.2f}"])
    versions = {f"* {row['version']}, {row['date']}" for row in rows if row["way"] in ways}
    return _PAGE.format(
        machine=_machine(rows),
        versions="\n".join(sorted(versions)),
        table="\n".join(f"| {' | '.join(cells)} |" for cells in table),
        mean=geometric_mean(found),
    )


def _ms(ms: float) -> str:
    return f"{ms:.3g}"


def _machine(rows: list[Row]) -> str:
    """All rows are of one: others are an error, not a table."""
    (machine,) = {(row["cpu"], row["threads"]) for row in rows}
    return f"{machine[1]} threads, {machine[0]}"


def _replace(text: str, start: str, line: str) -> str:
    pattern = re.compile(rf"^{re.escape(start)}.*$", re.MULTILINE)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"expected one line that starts with {start!r}")
    return pattern.sub(lambda _: line, text)


def main(argv: list[str]) -> None:
    del argv
    root = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    rows = read_rows(root / ROWS)
    (root / README).write_text(readme((root / README).read_text(), rows))
    (root / PAGE).write_text(page(rows))


if __name__ == "__main__":
    app.run(main)
