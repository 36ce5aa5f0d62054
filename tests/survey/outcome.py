"""What came of one architecture: how far it got, in steps, and why no further."""

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

#: The steps in order. `builds` fails for a model that this folder cannot make, or eager cannot run.
STEPS = ("builds", "exports", "lowers", "runs", "matches")

#: The reason of a model that the installed release of its library has not.
ABSENT = "absent"


@dataclasses.dataclass
class Outcome:
    """What came of one architecture.

    Attributes:
        steps: those that it passed; not `exports` if the exported program differs from the module.
        reason: why it failed at the next one; empty if it passed all.
        error: largest error of an output relative to its largest magnitude, once it ran.
        seconds: how long each step took.
        on_cpu: on a GPU, how many calls of operators were left to the CPU, once it was lowered.
        warnings: what lowering said of it.
        versions: of torch and the model's library.
    """

    model: str
    device: str
    steps: list[str] = dataclasses.field(default_factory=list)
    reason: str = ""
    error: float | None = None
    on_cpu: int | None = None
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    warnings: list[str] = dataclasses.field(default_factory=list)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def absent(self) -> bool:
        """Whether the library is not installed, or has no such model."""
        return self.reason == ABSENT

    @property
    def failed_step(self) -> str:
        """The step that it failed at; empty if it passed all."""
        return next((step for step in STEPS if step not in self.steps), "")

    @property
    def library(self) -> str:
        """The library that has the model."""
        return self.model.partition(":")[0] if ":" in self.model else "transformers"

    def first_line(self) -> str:
        """The reason, short."""
        lines = [line.strip() for line in self.reason.splitlines() if line.strip()]
        return " ".join(lines[:2])[:250]


def path_of(folder: Path, model: str, device: str) -> Path:
    """Where the outcome of a model is kept."""
    return folder / f"{model}.{device}.json"


def write(outcome: Outcome, folder: Path) -> None:
    """Keeps an outcome."""
    path = path_of(folder, outcome.model, outcome.device)
    text = json.dumps(dataclasses.asdict(outcome), indent=1)
    partial = path.with_suffix(".partial")
    partial.write_text(text + "\n")
    partial.replace(path)


def read(folder: Path, models: Iterable[str], device: str) -> list[Outcome]:
    """The outcomes that `folder` has of `models`."""
    found = []
    for model in models:
        path = path_of(folder, model, device)
        if path.exists():
            fields: dict[str, Any] = json.loads(path.read_text())
            found.append(Outcome(**fields))
    return found
