"""Tiny models with random weights of architectures that `transformers` has.

module, inputs = build("llama")
module(**inputs)
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from tests.survey.inputs import inputs_of
from tests.survey.shrink import WAYS, config_class, small_config

#: Models with more parameters are too slow to try.
LIMIT = 60_000_000

#: What the survey takes if it is asked for nothing else.
ARCHITECTURES = ("bert", "gpt2", "llama", "mixtral", "vit")

Inputs = Mapping[str, Any]


class Absent(Exception):
    """This release of `transformers` has no such architecture."""


def build(name: str) -> tuple[nn.Module, Inputs]:
    """The smallest model that runs, in eval mode, and inputs for it.

    Raises:
        Absent: there is no such architecture.
        RuntimeError: none of the configurations that were tried runs.
    """
    try:
        config_class(name)
    except KeyError:
        raise Absent(name) from None
    failures = []
    for rules in WAYS:
        try:
            module = _model(small_config(name, rules))
            for inputs in inputs_of(module):
                try:
                    with torch.no_grad():
                        module(**inputs)
                except Exception as error:
                    failures.append(error)
                else:
                    return module, inputs
        except Exception as error:
            failures.append(error)
    raise RuntimeError(
        "no configuration runs: " + "; ".join(dict.fromkeys(_line(error) for error in failures))
    )


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
