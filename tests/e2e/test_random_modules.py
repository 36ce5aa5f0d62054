r"""Modules drawn at random: lowered, run, equal to eager.

  tools/bazel test //tests/e2e:test_random_modules
  tools/bazel test //tests/e2e:test_random_modules \
      --test_env=RANDOM_SEEDS=0:200 --test_timeout=7200

A seed that cannot be lowered must stand in REFUSED with a part of its message; one that stands
there and can be lowered is an error too. The first 200 run with none refused.
"""

from __future__ import annotations

import os
import pathlib

import pytest
import torch

from backends.cpu import CpuOptions
from runtime import Runtime
from tests.e2e.lowering import delegate_sizes, flat_inputs, flat_outputs, lower_program
from tests.models.random_modules import random_sample
from tests.models.sample import max_relative_error

_CALLS = 2  # the second sees the state that the first left
_LEAST_OPS = 3  # of the largest delegate, so that what ran is compiled code
_OPTIONS = CpuOptions(num_threads=1)  # these tensors are too small for more

# Seeds of the first 200 that are refused, and by which message. Five in a hundred is too many.
REFUSED: dict[int, str] = {}
assert len(REFUSED) <= 10


def seeds() -> range:
    """From the environment, "first:end"; by default a few that a presubmit can afford."""
    first, end = os.environ.get("RANDOM_SEEDS", "0:4").split(":")
    return range(int(first), int(end))


@pytest.mark.parametrize("seed", seeds())
def test_random_module(seed: int, tmp_path: pathlib.Path) -> None:
    sample = random_sample(seed)
    module = sample.module()
    path = tmp_path / "random.pte"
    if seed in REFUSED:
        with pytest.raises(Exception, match=REFUSED[seed]):
            lower_program(sample, module, _OPTIONS)
        return
    program = lower_program(sample, module, _OPTIONS)
    program.save(str(path))
    assert max(delegate_sizes(program)) >= _LEAST_OPS, f"steps {module.drawn}"
    method = Runtime.get().load_program(path).load_method("forward")
    module = sample.module()
    for call in range(_CALLS):
        found = method.execute(flat_inputs(sample, call))
        with torch.no_grad():
            expected = flat_outputs(module(*sample.inputs(call)))
        for index, (a, b) in enumerate(zip(found, expected, strict=True)):
            error = max_relative_error(a, b)
            assert error <= sample.rtol, f"call {call}, output {index}: {error:.2e}, {module.drawn}"
