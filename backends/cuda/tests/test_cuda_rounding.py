"""Values are rounded where eager rounds them, and are those of their dtype. Needs a GPU."""

import pathlib
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from pteron.backends.cuda import CudaOptions
from pteron.backends.cuda.tests.programs import ON_DEVICE, load, lower, save
from tests.models.rounding import DECISIONS, Conversions, Decisions, halves

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def _check(model: torch.nn.Module, x: torch.Tensor, folder: pathlib.Path) -> None:
    exported = torch.export.export(model, (x,))
    path = save(lower(exported, CudaOptions()), folder, **ON_DEVICE)
    outputs = load(path).load_method("forward").execute([x])
    leaves, _ = pytree.tree_flatten_with_path(model(x))
    wrong = []
    for found, (name, expected) in zip(outputs, leaves, strict=True):
        values: tuple[Any, Any] = found.nan_to_num(7), expected.nan_to_num(7)
        if found.dtype != expected.dtype or not torch.equal(*values):
            wrong.append(f"{pytree.keystr(name)}: {found[found != expected][:4]}")
    assert wrong == []


#: Of so many functions is one program: Triton compiles and tries the kernels of each.
_FUNCTIONS = 4


@pytest.mark.parametrize("first", range(0, len(DECISIONS), _FUNCTIONS))
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_decisions_on_halves(tmp_path: pathlib.Path, dtype: torch.dtype, first: int) -> None:
    functions = dict(list(DECISIONS.items())[first : first + _FUNCTIONS])
    _check(Decisions(functions), halves(dtype).cuda(), tmp_path)


def test_conversions_of_indices(tmp_path: pathlib.Path) -> None:
    _check(Conversions(), torch.zeros(1, device="cuda"), tmp_path)
