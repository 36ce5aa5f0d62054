"""Every sample model: lowered, saved, and run in three ways with results equal to eager's.

Through Python beside torch, through the runner, and in a process that cannot import torch. State
that a model keeps is compared over several calls.
"""

import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from pteron.runtime import Runtime
from tests.e2e.lowering import flat_inputs, flat_outputs, lower_program, save_tensors
from tests.models.features import FEATURES
from tests.models.networks import NETWORKS
from tests.models.sample import Sample, max_relative_error

_CALLS = 3  # with inputs of seeds 0, 1, 2

RUNNER = pathlib.Path(os.environ["RUNNER"]).resolve()
WITHOUT_TORCH = pathlib.Path(__file__).with_name("run_without_torch.py")


@pytest.fixture(scope="module", params=NETWORKS + FEATURES, ids=lambda sample: sample.name)
def lowered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(sample, program file, eager's flat outputs for each call)."""
    sample: Sample = request.param
    path = tmp_path_factory.mktemp(sample.name) / f"{sample.name}.pte"
    module = sample.module()
    lower_program(sample, module).save(path)
    module = sample.module()  # exporting may have touched the state
    with torch.no_grad():
        expected = [
            [
                value.clone() if isinstance(value, torch.Tensor) else value
                for value in flat_outputs(module(*sample.inputs(seed), **sample.kwargs(seed)))
            ]
            for seed in range(_CALLS)
        ]
    return sample, path, expected


def check(sample: Sample, found: list[Any], expected: list[Any]) -> None:
    """Fails unless every output has eager's dtype, shape and values."""
    assert len(found) == len(expected)
    for index, (a, b) in enumerate(zip(found, expected, strict=True)):
        error = max_relative_error(torch.as_tensor(a), torch.as_tensor(b))
        assert error <= sample.rtol, f"output {index}: relative error {error:.2e}"


def test_through_python(lowered: Any) -> None:
    sample, path, expected = lowered
    method = Runtime.get().load_program(path).load_method("forward")
    found = [method.execute(flat_inputs(sample, seed)) for seed in range(_CALLS)]
    for outputs, reference in zip(found, expected, strict=True):
        check(sample, outputs, reference)


def test_through_the_runner(lowered: Any) -> None:
    sample, path, expected = lowered
    inputs, outputs = path.with_suffix(".in.safetensors"), path.with_suffix(".out.safetensors")
    save_tensors(inputs, "input", flat_inputs(sample, 0))
    command = [RUNNER, f"--program={path}", "--method=forward"]
    command += [f"--inputs={inputs}", f"--outputs={outputs}"]
    subprocess.run(command, check=True)
    tensors = load_file(outputs)
    found = [tensors[f"output_{i}"] for i in range(len(expected[0]))]
    check(sample, found, [torch.as_tensor(value) for value in expected[0]])


def test_in_a_process_without_torch(lowered: Any) -> None:
    sample, path, expected = lowered
    import numpy as np

    folder = path.parent
    for seed in range(_CALLS):
        inputs = {}
        for index, value in enumerate(flat_inputs(sample, seed)):
            bits = isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16
            name = f"{'bfloat16' if bits else 'input'}_{index}"
            inputs[name] = np.asarray(value.view(torch.uint16) if bits else value)
        np.savez(folder / f"inputs_{seed}.npz", **inputs)
    command = [sys.executable, WITHOUT_TORCH, f"--program={path}", f"--calls={_CALLS}"]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    for seed in range(_CALLS):
        with np.load(folder / f"outputs_{seed}.npz") as archive:
            found = [
                torch.from_numpy(archive[name]).view(torch.bfloat16)
                if name.startswith("bfloat16")
                else torch.from_numpy(archive[name])
                for name in archive.files
            ]
        check(sample, found, [torch.as_tensor(value) for value in expected[seed]])
