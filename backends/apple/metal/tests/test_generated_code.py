"""What Inductor writes for an Apple GPU, and that nothing of the process is changed by it.

Goldens are kernels without torch's helpers, and the calls that launch them. If new ones are right:

    tools/bazel run //backends/apple/metal/tests:test_generated_code -- --keep="$PWD"
"""

import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from pteron.backends.aoti import inductor
from pteron.backends.aoti.ops import shim_list
from pteron.backends.apple.metal import MetalOptions
from pteron.backends.apple.metal.metal_backend import MetalBackend
from tests.models.networks import MlpBlock
from tests.models.sample import randn

_GOLDENS = pathlib.Path(__file__).parent / "goldens"
_IS_RECORDED = pytest.mark.skipif(
    not torch.__version__.startswith("2.13"), reason="goldens are of torch 2.13"
)


def generated(module: nn.Module, *inputs: Any) -> inductor.GeneratedCode:
    torch.manual_seed(0)
    program = torch.export.export(module.eval(), inputs).run_decompositions()
    options = MetalOptions()
    return inductor.generate(
        MetalBackend._prepare(program, options), MetalBackend.get_build_target(options).code
    )


def shown(code: inductor.GeneratedCode) -> str:
    """Kernels and launches of the model, without what is the same in all."""
    kernels = re.findall(r'R"MTL\((.*?)\)MTL"', code.model, re.DOTALL)
    texts = []
    for kernel in kernels:
        begin = kernel.rindex("kernel void")
        attribute = kernel.rfind("[[max_total", 0, begin)
        texts.append(kernel[attribute if attribute >= 0 else begin :].strip())
    run = code.model[code.model.index("AOTInductorModel::run_impl") :]
    calls = re.findall(r"aoti_torch_mps_\w+\(.*?\)(?=\)*;)", run)
    return "\n\n".join([*texts, "\n".join(calls)]) + "\n"


class Softmax(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (2 * x).softmax(-1)


_MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]] = {
    "mlp": (lambda: MlpBlock(16, 32), (randn(0, 4, 16),)),
    "softmax": (Softmax, (randn(0, 3, 40),)),
    "convolution": (lambda: nn.Conv2d(3, 4, 3), (randn(0, 1, 3, 8, 8),)),
}


@_IS_RECORDED
@pytest.mark.parametrize("name", _MODELS)
def test_kernels_and_launches_are_as_kept(name: str, request: pytest.FixtureRequest) -> None:
    build, inputs = _MODELS[name]
    found = shown(generated(build(), *inputs))
    if keep := request.config.getoption("--keep"):
        path = pathlib.Path(keep) / "backends/apple/metal/tests/goldens" / f"{name}.txt"
        path.write_text(found)
    else:
        assert found == (_GOLDENS / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", _MODELS)
def test_the_runtime_has_all_that_is_called(name: str) -> None:
    build, inputs = _MODELS[name]
    called = inductor.operator_functions(generated(build(), *inputs).model)
    assert any(function.startswith("aoti_torch_mps_dispatch") for function in called) or (
        "aoti_torch_mps_convolution" in called
    )
    assert set(called) <= shim_list.load("mps").names


def test_constants_are_on_the_device() -> None:
    model = generated(nn.Linear(64, 64), randn(0, 2, 64)).model
    constants = re.findall(r"pteron_constant\(.*\);", model)
    assert len(constants) == 2
    assert all("aoti_torch_device_type_mps()" in constant for constant in constants)


def test_all_of_torch_is_as_before() -> None:
    from torch._inductor.fx_passes import joint_graph
    from torch._subclasses import FakeTensor

    def state() -> list[Any]:
        return [
            torch.backends.mps.is_available,
            torch.backends.mps.get_core_count,
            torch.backends.mps.is_macos_or_newer,
            torch.mps.is_available,
            hasattr(torch._C, "_mps_get_core_count"),
            joint_graph.lazy_init,
            FakeTensor.item,
            FakeTensor.__invert__,
        ]

    before = state()
    generated(nn.GELU(), randn(0, 8, 64))
    assert state() == before


def test_the_same_text_comes_out_again() -> None:
    first = generated(MlpBlock(16, 32), randn(0, 4, 16))
    generated(nn.GELU(), randn(0, 8, 64))
    assert generated(MlpBlock(16, 32), randn(0, 4, 16)).model == first.model
