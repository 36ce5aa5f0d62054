"""Sample models lowered for CUDA and run there, with results equal to eager's. Needs a GPU.

Through Python with tensors on the host and on the device, and through the runner.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.utils import _pytree as pytree

from backends.cuda import CudaOptions, CudaPartitioner
from exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from runtime import Runtime
from tests.models.features import FEATURES
from tests.models.gpt import export_methods, make_gpt
from tests.models.networks import NETWORKS
from tests.models.sample import Sample, max_relative_error

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

_CALLS = 3  # with inputs of seeds 0, 1, 2
DATA = "aoti_cuda_blob.ptd"


def save(manager: Any, folder: pathlib.Path, **config: Any) -> pathlib.Path:
    """Writes program and weights; returns the program's path."""
    program = manager.to_executorch(ExecutorchBackendConfig(**config))
    program.save(folder / "model.pte")
    program.write_tensor_data_to_file(folder)
    return folder / "model.pte"


def data_of(path: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path.parent.glob("*.ptd"))


def flat(tree: Any) -> list[Any]:
    return pytree.tree_leaves(tree)


def eager(sample: Sample, calls: int = _CALLS) -> list[list[Any]]:
    """Flat outputs on the CPU, call by call, state carried on."""
    module = sample.module()
    with torch.no_grad():
        return [
            [
                v.clone() if isinstance(v, torch.Tensor) else v
                for v in flat(module(*sample.inputs(seed), **sample.kwargs(seed)))
            ]
            for seed in range(calls)
        ]


def check(found: list[Any], expected: list[Any], tolerance: float) -> None:
    assert len(found) == len(expected)
    for index, (a, b) in enumerate(zip(found, expected, strict=True)):
        error = max_relative_error(torch.as_tensor(a).cpu(), torch.as_tensor(b))
        assert error <= tolerance, f"output {index}: relative error {error:.2e}"


# Without `selection`, whose embedding bag has no function for CUDA yet.
SAMPLES = tuple(sample for sample in NETWORKS + FEATURES if sample.name != "selection")


@pytest.fixture(scope="module", params=SAMPLES, ids=lambda sample: sample.name)
def lowered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(sample, program file, eager's outputs), tensors of the method's border on the host."""
    sample: Sample = request.param
    manager = to_edge_transform_and_lower(sample.export(), partitioner=[CudaPartitioner()])
    return sample, save(manager, tmp_path_factory.mktemp(sample.name)), eager(sample)


def inputs_of(sample: Sample, seed: int) -> list[Any]:
    return flat((sample.inputs(seed), sample.kwargs(seed)))


def test_through_python(lowered: Any) -> None:
    sample, path, expected = lowered
    program = Runtime.get().load_program(path, data_path=data_of(path))
    method = program.load_method("forward")
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
def test_matrix_products_by_choice(gemm: str, tmp_path: pathlib.Path) -> None:
    sample = next(s for s in NETWORKS if s.name == "mlp_block")
    partitioner = CudaPartitioner(CudaOptions(gemm=gemm, save_data_externally=False))
    path = save(to_edge_transform_and_lower(sample.export(), partitioner=[partitioner]), tmp_path)
    assert not data_of(path)
    method = Runtime.get().load_program(path).load_method("forward")
    check(method.execute(inputs_of(sample, 0)), eager(sample, 1)[0], sample.rtol)


def test_tensors_on_the_device(tmp_path: pathlib.Path) -> None:
    """Inputs are used where they lie and outputs stay there; the caller's stream orders all."""
    sample = next(s for s in NETWORKS if s.name == "mlp_block")
    manager = to_edge_transform_and_lower(sample.export(), partitioner=[CudaPartitioner()])
    path = save(
        manager, tmp_path, skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True
    )
    method = Runtime.get().load_program(path, data_path=data_of(path)).load_method("forward")
    expected = eager(sample)
    for seed, reference in enumerate(expected):
        inputs = [value.cuda() for value in inputs_of(sample, seed)]
        found = method.execute(inputs)
        assert all(value.is_cuda for value in found)
        check(found, reference, sample.rtol)


def test_weights_are_shared_by_methods(tmp_path: pathlib.Path) -> None:
    sample = next(s for s in NETWORKS if s.name == "mlp_block")
    manager = to_edge_transform_and_lower(sample.export(), partitioner=[CudaPartitioner()])
    path = save(manager, tmp_path)
    program = Runtime.get().load_program(path, data_path=data_of(path))
    first = program.load_method("forward")
    first.execute(inputs_of(sample, 0))
    before = torch.cuda.mem_get_info()[0]
    second = program.load_method("forward")
    # Before its first run a method has no memory for intermediates and no cuBLAS workspace.
    taken = before - torch.cuda.mem_get_info()[0]
    check(second.execute(inputs_of(sample, 0)), eager(sample, 1)[0], sample.rtol)
    weights = sum(p.numel() * p.element_size() for p in sample.module().parameters())
    assert taken < weights


def test_unloading_returns_device_memory(tmp_path: pathlib.Path) -> None:
    sample = next(s for s in NETWORKS if s.name == "mlp_block")
    manager = to_edge_transform_and_lower(sample.export(), partitioner=[CudaPartitioner()])
    path = save(manager, tmp_path)

    def cycle() -> None:
        program = Runtime.get().load_program(path, data_path=data_of(path))
        program.load_method("forward").execute(inputs_of(sample, 0))

    for _ in range(3):
        cycle()
    start = torch.cuda.mem_get_info()[0]
    for _ in range(30):
        cycle()
    assert torch.cuda.mem_get_info()[0] == start


def test_decoder_with_a_cache(tmp_path: pathlib.Path) -> None:
    """Prefill and decode share cache and weights; logits follow eager's step by step."""
    gpt = make_gpt()
    manager = to_edge_transform_and_lower(export_methods(gpt), partitioner=[CudaPartitioner()])
    path = save(manager, tmp_path)
    program = Runtime.get().load_program(path, data_path=data_of(path))
    session = program.session()
    prefill = program.load_method("prefill", session=session)
    decode = program.load_method("decode", session=session)
    reference = make_gpt()
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(0, 50, (1, 24), generator=generator)
    with torch.no_grad():
        expected = reference(ids[:, :8], torch.arange(8))
        (found,) = prefill.execute([ids[:, :8].contiguous()])
        check([found], [expected], 1e-4)
        for step in range(8, 24):
            token, position = ids[:, step : step + 1].contiguous(), torch.tensor([step])
            (found,) = decode.execute([token, position])
            check([found], [reference(token, position)], 1e-4)
