"""Speed on a GPU, beside torch's in the same run.

  tools/bazel run //tests/benchmarks:gpu -- --json=$HOME/gpu.json

Parts: `mm` (the matrix product of the runtime beside torch.mm), `models` (whole models beside
eager, torch.compile and reduce-overhead), `choices` (cuBLAS beside Triton's template), `threads`
(whole programs on eight threads beside a bare cuBLAS loop), `attention` (beside torch's
ways), `decoder` (a Llama shape of `transformers`, with its cache).
"""

import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import torch
from absl import app, flags

_ALL = ["mm", "models", "attention", "decoder", "choices", "threads"]
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


def _models() -> tuple[Any, str]:
    from tests.benchmarks.cuda import models

    report = models.measure(_ROUNDS.value, tuple(_GEMM.value), tuple(_MODES.value), _CASES.value)
    return report, models.table(report)


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


_MEASURE: dict[str, Callable[[], tuple[Any, str]]] = {
    "mm": _mm,
    "models": _models,
    "attention": _attention,
    "choices": _choices,
    "decoder": _decoder,
    "threads": _threads,
}


def main(argv: list[str]) -> None:
    del argv
    if unknown := [part for part in _PARTS.value if part not in _MEASURE]:
        raise app.UsageError(f"--parts: no {', '.join(unknown)}; there are {', '.join(_MEASURE)}")
    if not torch.cuda.is_available():
        sys.exit(
            "there is no GPU here to measure on; tools/gpu/README.md says how to take this to one"
        )
    report: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    for part in _PARTS.value:
        report[part], text = _MEASURE[part]()
        print(text, flush=True)
    if _JSON.value:
        pathlib.Path(_JSON.value).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    app.run(main)
