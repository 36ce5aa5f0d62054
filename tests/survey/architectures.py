"""Models with random weights, by name, and calls of them.

for way in build("llama"):          # an architecture of `transformers`, made tiny
    way.module(*way.args, **way.kwargs)
build("timm:resnet10t")             # one of libraries/
"""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from tests.survey.inputs import inputs_of
from tests.survey.libraries import recipe
from tests.survey.libraries.recipe import Absent, Recipe
from tests.survey.shrink import WAYS, config_class, small_config

#: Models with more parameters are too slow to try.
LIMIT = 60_000_000

Inputs = Mapping[str, Any]


def build(name: str) -> list[Recipe]:
    """A model in eval mode and calls that it takes, the best first.

    Raises:
        Absent: there is no such model.
        RuntimeError: none of the configurations of `transformers` that were tried runs.
    """
    if ":" in name:
        found = recipe(name)
        with torch.no_grad():
            copy.deepcopy(found.module)(*found.args, **found.kwargs)
        return [found]
    module, candidates = _architecture(name)
    return [Recipe(module, kwargs=inputs) for inputs in candidates]


def _architecture(name: str) -> tuple[nn.Module, list[Inputs]]:
    """The smallest model that runs, and inputs that it runs with."""
    import transformers

    transformers.logging.set_verbosity_error()
    try:
        config_class(name)
    except KeyError:
        raise Absent(name) from None
    failures: list[Exception] = []
    for rules in WAYS:
        try:
            module = _model(small_config(name, rules))
            if found := _that_run(module, failures):
                return module, found
        except Exception as error:
            failures.append(error)
    raise RuntimeError(
        "no configuration runs: " + "; ".join(dict.fromkeys(_line(error) for error in failures))
    )


def _that_run(module: nn.Module, failures: list[Exception]) -> list[Inputs]:
    """One set of inputs for each choice of parameters."""
    found: dict[frozenset[str], Inputs] = {}
    for inputs in inputs_of(module):
        if (names := frozenset(inputs)) not in found:
            try:
                with torch.no_grad():
                    module(**inputs)
                found[names] = inputs
            except Exception as error:
                failures.append(error)
    return list(found.values())


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"[:200]


def _model(config: Any) -> nn.Module:
    from transformers import AutoModel

    with torch.device("meta"):
        size = sum(p.numel() for p in AutoModel.from_config(config).parameters())
    if size > LIMIT:
        raise RuntimeError(f"{size} parameters are too many")
    torch.manual_seed(1234)
    return AutoModel.from_config(config).eval()
