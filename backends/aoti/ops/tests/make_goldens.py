"""Writes FOLDER/<family>/goldens.json for each family: `make_goldens FOLDER FAMILY...`.

A step of the build of //backends/aoti/ops:goldens.
"""

import importlib
import json
import pathlib

import torch
from absl import app


def main(argv: list[str]) -> None:
    for family in argv[2:]:
        torch.manual_seed(0)
        module = importlib.import_module(f"pteron.backends.aoti.ops.{family}.tests.cases")
        cases = ",\n".join(json.dumps(case, separators=(",", ":")) for case in module.cases())
        (pathlib.Path(argv[1]) / family / "goldens.json").write_text(f"[\n{cases}\n]\n")


if __name__ == "__main__":
    app.run(main)
