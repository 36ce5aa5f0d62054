"""Regenerates ops/*/goldens.json: `tools/bazel run //backends/aoti/ops/conformance:make_goldens`.

With names of families, only theirs.
"""

import importlib
import json
import os
import pathlib

from absl import app

from pteron.backends.aoti.ops.conformance.case import Json

#: Has a folder for each family.
FOLDER = pathlib.Path(__file__).parent.parent


def families() -> list[str]:
    """All, by name."""
    return sorted(path.parent.name for path in FOLDER.glob("*/cases.py"))


def goldens(family: str) -> list[Json]:
    """The cases of a family, with torch's results."""
    module = importlib.import_module(f"pteron.backends.aoti.ops.{family}.cases")
    return list(module.cases())


def text(cases: list[Json]) -> str:
    """One case a line."""
    return "[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n"


def main(argv: list[str]) -> None:
    workspace = pathlib.Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    folder = workspace / "backends/aoti/ops"
    for family in argv[1:] or families():
        (folder / family / "goldens.json").write_text(text(goldens(family)))


if __name__ == "__main__":
    app.run(main)
