"""Speed on a GPU, beside torch's in the same run.

  tools/bazel run //tests/benchmarks:gpu -- --json=$HOME/gpu.json

Parts: `mm` (the matmul of the runtime beside torch.mm), `models` (whole models beside
eager, torch.compile and reduce-overhead), `choices` (cuBLAS beside Triton's template), `threads`
(whole programs on eight threads beside a bare cuBLAS loop), `attention` (beside torch's
ways), `decoder` (a Llama shape of `transformers`, with its cache), `memory` (of the models, beside
eager's).

What the JSON file has of the same commit, GPU and torch is not measured again.
"""

import importlib
import sys
from typing import Any

import torch
from absl import app, flags

from tests.benchmarks.results import Results, commit

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


def _measure_models(results: Results) -> None:
    """Case by case, but for those that there are results of."""
    from tests.benchmarks.cuda import models, networks

    report: dict[str, Any] = results.report.setdefault("models", {})
    for case in _CASES.value or networks.CASES:
        if case not in report:
            report[case] = models.measure(
                case, _ROUNDS.value, tuple(_GEMM.value), tuple(_MODES.value)
            )
            results.save()
        print(models.table({case: report[case]}), flush=True)


def main(argv: list[str]) -> None:
    del argv
    if unknown := [part for part in _PARTS.value if part not in _ALL]:
        raise app.UsageError(f"--parts: no {', '.join(unknown)}; there are {', '.join(_ALL)}")
    if not torch.cuda.is_available():
        sys.exit(
            "there is no GPU here to measure on; tools/gpu/README.md says how to take this to one"
        )
    origin = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "commit": commit()}
    results = Results(_JSON.value, origin)
    for part in _PARTS.value:
        if part == "models":
            _measure_models(results)
        elif part not in results.report:
            module = importlib.import_module(f"tests.benchmarks.cuda.{part}")
            what = _CASES.value if part == "memory" else _ROUNDS.value
            results.report[part] = module.measure(what)
            results.save()
            print(module.table(results.report[part]), flush=True)


if __name__ == "__main__":
    app.run(main)
