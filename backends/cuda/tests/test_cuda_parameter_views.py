"""Products with parts of parameters, of modules on the GPU. Needs a GPU."""

import copy
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from pteron.backends.cuda import CudaOptions
from pteron.backends.cuda.tests.programs import ON_DEVICE, flat, load, lower, save
from tests.models.cases import Together
from tests.models.parameter_views import PRODUCTS
from tests.models.sample import max_relative_error

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

# Fused attention, which a module on the GPU has, is refused: it has no shim yet.
_CASES = [case for case in PRODUCTS[:8] if case.name != "attention_two"]
#: Largest error against the same values in double, relative to the largest value. TF32 (off here)
#: would give 1e-4 and more.
_TOLERANCES = {torch.float32: 5e-6, torch.bfloat16: 2**-6}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            (gemm, dtype),
            id=f"{gemm}-{str(dtype).removeprefix('torch.')}",
            marks=pytest.mark.xdist_group(f"{gemm} {dtype}"),
        )
        for gemm in ("cublas", "triton")
        for dtype in _TOLERANCES
    ],
)
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(outputs by case, what they are in double, tolerance)."""
    gemm, dtype = request.param
    together = Together(_CASES, dtype)
    inputs = [value.cuda() for value in together.inputs()]
    module = copy.deepcopy(together).cuda()
    exported = torch.export.export(module, tuple(inputs))
    manager = lower(exported, CudaOptions(gemm=gemm))
    path = save(manager, tmp_path_factory.mktemp(gemm), **ON_DEVICE)
    outputs = load(path).load_method("forward").execute(inputs)
    found = pytree.tree_unflatten(outputs, exported.call_spec.out_spec)
    return found, together.exact(), _TOLERANCES[dtype]


@pytest.mark.parametrize("name", [case.name for case in _CASES])
def test_results_are_those_in_double(results: Any, name: str) -> None:
    found, exact, tolerance = results
    for output, value in zip(flat(found[name]), flat(exact[name]), strict=True):
        error = max_relative_error(output.cpu().double(), value)
        assert error <= tolerance, f"relative error {error:.2e}"
