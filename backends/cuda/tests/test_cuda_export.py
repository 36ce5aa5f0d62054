"""Sample models lowered for CUDA and run there, with results equal to eager's. Needs a GPU.

Through Python with tensors on the host and on the device, and through the runner.
"""

import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from pteron.backends.cuda import CudaOptions
from pteron.backends.cuda.tests.programs import (
    ON_DEVICE,
    check,
    data_of,
    eager,
    inputs_of,
    load,
    lower,
    sample_named,
    save,
)
from tests.models.features import FEATURES
from tests.models.networks import NETWORKS
from tests.models.sample import Sample

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

_CALLS = 3  # with inputs of seeds 0, 1, 2
SAMPLES = NETWORKS + FEATURES


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(sample, marks=pytest.mark.xdist_group(sample.name), id=sample.name)
        for sample in SAMPLES
    ],
)
def lowered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(sample, program file, eager's outputs), the method's inputs and outputs on the host."""
    sample: Sample = request.param
    path = save(lower(sample.export()), tmp_path_factory.mktemp(sample.name))
    return sample, path, eager(sample, _CALLS)


def test_through_python(lowered: Any) -> None:
    sample, path, expected = lowered
    method = load(path).load_method("forward")
    for seed, reference in enumerate(expected):
        check(method.execute(inputs_of(sample, seed)), reference, sample.rtol)


def test_through_the_runner(lowered: Any) -> None:
    sample, path, expected = lowered
    inputs, outputs = path.with_suffix(".in.safetensors"), path.with_suffix(".out.safetensors")
    save_file(
        {
            f"input_{i}": torch.as_tensor(value).clone().contiguous()
            for i, value in enumerate(inputs_of(sample, 0))
        },
        inputs,
    )
    command = [os.environ["RUNNER"], f"--program={path}", *(f"--data={p}" for p in data_of(path))]
    subprocess.run([*command, f"--inputs={inputs}", f"--outputs={outputs}"], check=True)
    tensors = load_file(outputs)
    found = [tensors[f"output_{i}"] for i in range(len(expected[0]))]
    check(found, [torch.as_tensor(value) for value in expected[0]], sample.rtol)


@pytest.mark.parametrize("gemm", ["cublas", "triton", "best"])
def test_gemm_option(gemm: str, tmp_path: pathlib.Path) -> None:
    sample = sample_named("mlp_block")
    options = CudaOptions(gemm=gemm, save_data_externally=False)
    path = save(lower(sample.export(), options), tmp_path)
    assert not data_of(path)
    method = load(path).load_method("forward")
    check(method.execute(inputs_of(sample, 0)), eager(sample, 1)[0], sample.rtol)


def test_tensors_on_the_device(tmp_path: pathlib.Path) -> None:
    """Inputs are used in place and outputs stay on the device, ordered by the caller's stream."""
    sample = sample_named("mlp_block")
    path = save(lower(sample.export()), tmp_path, **ON_DEVICE)
    method = load(path).load_method("forward")
    for seed, reference in enumerate(eager(sample, _CALLS)):
        found = method.execute([value.cuda() for value in inputs_of(sample, seed)])
        assert all(value.is_cuda for value in found)
        check(found, reference, sample.rtol)


def test_products_may_be_recorded(tmp_path: pathlib.Path) -> None:
    """What is recorded at the second call reads what the inputs hold at later ones."""
    sample = sample_named("mlp_block")
    path = save(lower(sample.export()), tmp_path, **ON_DEVICE)
    options = {"CudaBackend": {"record_products": True}}
    method = load(path).load_method("forward", backend_options=options)
    inputs = [value.cuda() for value in inputs_of(sample, 0)]
    for seed, reference in enumerate(eager(sample, 6)):
        for value, new in zip(inputs, inputs_of(sample, seed), strict=True):
            value.copy_(new)
        check(method.execute(inputs), reference, sample.rtol)


_RUN = """
import sys, torch
from pteron.backends.cuda.tests.programs import inputs_of, load, sample_named
method = load(__import__("pathlib").Path(sys.argv[1])).load_method("forward")
torch.save(method.execute(inputs_of(sample_named(sys.argv[2]), 0)), sys.argv[3])
"""


@pytest.mark.parametrize("name", ["conv_net", "depthwise_net"])
def test_convolutions_without_cudnn(name: str, tmp_path: pathlib.Path) -> None:
    """A machine without cuDNN runs whole networks, with our own convolutions."""
    sample = sample_named(name)
    path = save(lower(sample.export()), tmp_path)
    found = tmp_path / "found.pt"
    subprocess.run(
        [sys.executable, "-c", _RUN, str(path), name, str(found)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PTERON_CUDNN": "off"},
        check=True,
    )
    check(torch.load(found), eager(sample, 1)[0], sample.rtol)
