"""Speed on a GPU, beside torch's in the same run.

  tools/bazel run //tests/benchmarks:gpu -- --json=$HOME/gpu.json

Parts: `mm` (the matmul of the runtime beside torch.mm), `models` (whole models beside
eager, torch.compile and reduce-overhead), `choices` (cuBLAS beside Triton's template), `threads`
(whole programs on eight threads beside a bare cuBLAS loop), `attention` (beside torch's
ways), `decoder` (a Llama shape of `transformers`, with its cache), `memory` (of the models, beside
eager's).

What the JSON file has of the same commit, GPU and torch is not measured again.
"""

import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import torch
from absl import app, flags

_ALL = ["mm", "models", "attention", "decoder", "choices", "threads", "memory"]
_PARTS = flags.DEFINE_list("parts", _ALL, "What to measure.")
_ROUNDS = flags.DEFINE_integer("rounds", 30, "Rounds through all ways; medians count.", 1)
_GEMM = flags.DEFINE_list("gemm", ["cublas", "triton", "best"], "Ours: who multiplies matrices.")
_MODES = flags.DEFINE_list(
    "modes",
    ["default", "reduce-overhead"],
    "Modes of torch.compile beside ours; max-autotune takes minutes a model.",
)
_CASES = flags.DEFINE_list("cases", [], "Names of models; all if empty.")
_JSON = flags.DEFINE_string("json", "", "Where to write the results as JSON.")


def _mm() -> tuple[Any, str]:
    from tests.benchmarks.cuda import mm

    report = mm.measure_all(_ROUNDS.value)
    return report, mm.table(report)


def _attention() -> tuple[Any, str]:
    from tests.benchmarks.cuda import attention

    report = attention.measure(_ROUNDS.value)
    return report, attention.table(report)


def _decoder() -> tuple[Any, str]:
    from tests.benchmarks.cuda import decoder

    report = decoder.measure(_ROUNDS.value)
    return report, decoder.table(report)


def _choices() -> tuple[Any, str]:
    from tests.benchmarks.cuda import choices

    report = choices.measure(_ROUNDS.value)
    return report, choices.table(report)


def _threads() -> tuple[Any, str]:
    from tests.benchmarks.cuda import threads

    report = threads.measure(min(_ROUNDS.value, 7))
    return report, threads.table(report)


def _memory() -> tuple[Any, str]:
    from tests.benchmarks.cuda import memory, networks

    report = memory.measure(_CASES.value or networks.CASES)
    return report, memory.table(report)


_MEASURE: dict[str, Callable[[], tuple[Any, str]]] = {
    "mm": _mm,
    "attention": _attention,
    "choices": _choices,
    "decoder": _decoder,
    "memory": _memory,
    "threads": _threads,
}


def _measure_models(report: dict[str, Any], save: Callable[[], None]) -> None:
    """Case by case, but for those that `report` has."""
    from tests.benchmarks.cuda import models, networks

    for case in _CASES.value or networks.CASES:
        if case not in report:
            report[case] = models.measure(
                case, _ROUNDS.value, tuple(_GEMM.value), tuple(_MODES.value)
            )
            save()
        print(models.table({case: report[case]}), flush=True)


def _commit() -> str:
    """Of a bundle of tools/gpu."""
    path = pathlib.Path(__file__).parents[2] / "commit.txt"
    return path.read_text().strip() if path.exists() else "unknown"


def main(argv: list[str]) -> None:
    del argv
    if unknown := [part for part in _PARTS.value if part not in _ALL]:
        raise app.UsageError(f"--parts: no {', '.join(unknown)}; there are {', '.join(_ALL)}")
    if not torch.cuda.is_available():
        sys.exit(
            "there is no GPU here to measure on; tools/gpu/README.md says how to take this to one"
        )
    path = pathlib.Path(_JSON.value) if _JSON.value else None
    made_by = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "commit": _commit(),
    }
    report: dict[str, Any] = json.loads(path.read_text()) if path and path.exists() else {}
    if made_by != {key: report.get(key) for key in made_by}:
        report = dict(made_by)

    def save() -> None:
        if path:
            path.write_text(json.dumps(report, indent=1) + "\n")

    for part in _PARTS.value:
        if part == "models":
            _measure_models(report.setdefault(part, {}), save)
        elif part not in report:
            report[part], text = _MEASURE[part]()
            save()
            print(text, flush=True)


if __name__ == "__main__":
    app.run(main)
