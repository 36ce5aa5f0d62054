"""The stored goldens against what the installed torch makes of the cases now."""

import json
import math
from typing import Any

import pytest

from pteron.backends.aoti.ops.conformance import make_goldens


def _differences(stored: Any, made: Any, path: str) -> list[str]:
    """Where two cases differ: exactly, but for floating-point numbers in results."""
    if isinstance(stored, dict) and isinstance(made, dict) and stored.keys() == made.keys():
        pairs: list[tuple[str, Any, Any]] = [(key, stored[key], made[key]) for key in stored]
    elif isinstance(stored, list) and isinstance(made, list) and len(stored) == len(made):
        pairs = [(str(i), a, b) for i, (a, b) in enumerate(zip(stored, made, strict=True))]
    elif isinstance(stored, float) or isinstance(made, float):
        # Another processor rounds sums otherwise.
        near = math.isclose(float(stored), float(made), rel_tol=1e-4, abs_tol=1e-5)
        return [] if near else [f"{path}: stored {stored}, torch makes {made}"]
    else:
        return [] if stored == made else [f"{path}: stored {stored}, torch makes {made}"]
    return [found for key, a, b in pairs for found in _differences(a, b, f"{path}/{key}")]


@pytest.mark.parametrize("family", make_goldens.families())
def test_goldens_are_what_torch_makes(family: str) -> None:
    stored = json.loads((make_goldens.FOLDER / family / "goldens.json").read_text())
    made = json.loads(make_goldens.text(make_goldens.goldens(family)))
    assert [case["case"] for case in stored] == [case["case"] for case in made]
    unchecked = []
    for old, new in zip(stored, made, strict=True):
        if "unchecked" in old:  # values that no two calls have in common, or no two machines
            unchecked.append(old["case"])
            continue
        assert _differences(old, new, old["case"]) == []
    assert len(unchecked) < len(stored)
