"""Attention lowered for CUDA from modules that lie on the GPU, beside eager. Needs a GPU."""

import dataclasses
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from pteron.backends.cuda import CudaOptions
from pteron.backends.cuda.tests.programs import ON_DEVICE, check, load, lower, save

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

#: Of the largest magnitude; what eager and ours round is different.
_TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@dataclasses.dataclass(frozen=True)
class Case:
    """One model: projections, attention over (heads, shared heads), a projection."""

    heads: int = 4
    shared: int = 4
    items: int = 64
    queries: int = 48
    dtype: torch.dtype = torch.bfloat16
    mask: str = "none"  # none, causal, bool, float, padding
    scale: float | None = None
    repeats: bool = False  # keys and values in memory, as models without enable_gqa do
    contiguous: bool = False  # heads before queries in memory, too


class Model(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case
        width = case.heads * case.items
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * case.shared * case.items)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        case = self.case
        batch, queries, _ = x.shape
        q = self.q(x).view(batch, queries, case.heads, case.items).transpose(1, 2)
        kv = self.kv(x).view(batch, queries, 2, case.shared, case.items)
        k, v = kv.permute(2, 0, 3, 1, 4)
        times = case.heads // case.shared
        if case.repeats:
            k, v = (
                t[:, :, None].expand(-1, -1, times, -1, -1).reshape(batch, -1, queries, case.items)
                for t in (k, v)
            )
        if case.contiguous:
            q, k, v = (t.contiguous() for t in (q, k, v))
        y = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=mask,
            is_causal=case.mask == "causal",
            scale=case.scale,
            enable_gqa=times > 1 and not case.repeats,
        )
        return self.out(y.transpose(1, 2).reshape(batch, queries, -1))


def _inputs(case: Case, batch: int = 2, queries: int | None = None) -> tuple[torch.Tensor, ...]:
    queries = queries or case.queries
    generator = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(
        batch, queries, case.heads * case.items, device="cuda", dtype=case.dtype,
        generator=generator,
    )  # fmt: skip
    if case.mask == "bool":
        return x, torch.ones(batch, 1, queries, queries, dtype=torch.bool, device="cuda").tril()
    if case.mask == "float":
        mask = torch.randn(1, case.heads, queries, queries, device="cuda", generator=generator)
        return x, mask.to(case.dtype)
    if case.mask == "padding":
        lengths = torch.tensor([queries, max(1, queries // 2)], device="cuda")[:batch]
        return x, (torch.arange(queries, device="cuda") < lengths[:, None])[:, None, None]
    return (x,)


def _model(case: Case) -> Model:
    torch.manual_seed(0)
    return Model(case).to("cuda", case.dtype).eval()


def _run(path: pathlib.Path, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = load(path).load_method("forward").execute(list(inputs))
    return found


CASES = {
    "bf16": Case(),
    "causal": Case(mask="causal", queries=200),
    "shared": Case(heads=8, shared=2, mask="causal", items=128),
    "shared_repeated": Case(heads=8, shared=2, mask="bool", repeats=True),
    "bool": Case(mask="bool", queries=77),
    "float": Case(mask="float", dtype=torch.float16, queries=40),
    "padding": Case(mask="padding", queries=130),
    "scale": Case(scale=0.5, dtype=torch.float16),
    "items_16": Case(items=16),
    "items_20": Case(items=20),
    "items_96": Case(items=96),
    "items_256": Case(items=256, heads=2, shared=1),
    "one": Case(queries=1, heads=8, shared=2),
    "few": Case(queries=5, mask="bool", dtype=torch.float16),
    "fp32": Case(dtype=torch.float32, mask="causal", queries=150),
    "fp32_bool": Case(dtype=torch.float32, mask="bool", heads=8, shared=2, repeats=True),
    "fp32_padding": Case(dtype=torch.float32, mask="padding"),
    "fp32_one": Case(dtype=torch.float32, queries=1),
    "fp32_contiguous": Case(dtype=torch.float32, queries=17, items=16, contiguous=True),
}


@pytest.mark.parametrize("name", CASES)
def test_default_options(name: str, tmp_path: pathlib.Path) -> None:
    case = CASES[name]
    model, inputs = _model(case), _inputs(case)
    path = save(lower(torch.export.export(model, inputs)), tmp_path, **ON_DEVICE)
    with torch.no_grad():
        check(_run(path, inputs), [model(*inputs).cpu()], _TOLERANCE[case.dtype])


LONG = {
    "bool": Case(mask="bool", queries=1100),
    "shared": Case(mask="bool", queries=1024, heads=8, shared=2, items=128, repeats=True),
    "fp16": Case(mask="bool", queries=1300, dtype=torch.float16),
}


@pytest.mark.parametrize("name", LONG)
def test_blocks_that_a_long_mask_excludes_are_left_out(name: str, tmp_path: pathlib.Path) -> None:
    case = LONG[name]
    model, inputs = _model(case), _inputs(case, batch=1)
    lowered = lower(torch.export.export(model, inputs))
    assert "attention 1 by flex" in " ".join(str(lowered.explain()).split())
    with torch.no_grad():
        expected = [model(*inputs).cpu()]
    check(_run(save(lowered, tmp_path, **ON_DEVICE), inputs), expected, _TOLERANCE[case.dtype])


@pytest.mark.parametrize("choice", ["library", "flex", "products"])
@pytest.mark.parametrize("name", ["causal", "shared_repeated", "fp32"])
def test_choices(name: str, choice: Any, tmp_path: pathlib.Path) -> None:
    """Each is right, and `explain()` shows which it is."""
    case = CASES[name]
    model, inputs = _model(case), _inputs(case)
    lowered = lower(torch.export.export(model, inputs), CudaOptions(attention=choice))
    assert f"attention 1 by {choice}" in " ".join(str(lowered.explain()).split())
    with torch.no_grad():
        expected = [model(*inputs).cpu()]
    check(_run(save(lowered, tmp_path, **ON_DEVICE), inputs), expected, _TOLERANCE[case.dtype])


@pytest.mark.parametrize("name", ["causal", "padding", "fp32", "few"])
def test_dynamic_batch_and_length(name: str, tmp_path: pathlib.Path) -> None:
    case = CASES[name]
    model, inputs = _model(case), _inputs(case)
    batch, length = Dim("batch", min=1, max=8), Dim("length", min=2, max=512)
    shapes: list[Any] = [{0: batch, 1: length}]
    if case.mask == "padding":
        shapes.append({0: batch, 3: length})
    elif case.mask == "bool":
        shapes.append({0: batch, 2: length, 3: length})
    exported = torch.export.export(model, inputs, dynamic_shapes=tuple(shapes))
    path = save(lower(exported), tmp_path, **ON_DEVICE)
    for size in ((2, 33), (1, 512), (2, 2)):
        fresh = _inputs(case, *size)
        with torch.no_grad():
            check(_run(path, fresh), [model(*fresh).cpu()], _TOLERANCE[case.dtype])


@pytest.mark.parametrize("form", ["flash", "efficient", "cudnn"])
def test_forms_that_torch_made(form: str, tmp_path: pathlib.Path) -> None:
    """A graph in which attention has been made one of torch's own operators before."""
    case = CASES["causal"]
    model, inputs = _model(case), _inputs(case)
    kinds = torch.nn.attention.SDPBackend
    kind = {"flash": kinds.FLASH_ATTENTION, "efficient": kinds.EFFICIENT_ATTENTION,
            "cudnn": kinds.CUDNN_ATTENTION}[form]  # fmt: skip
    with torch.nn.attention.sdpa_kernel(kind):
        exported = torch.export.export(model, inputs).run_decompositions()
    assert f"_scaled_dot_product_{form}_attention" in exported.graph_module.code
    path = save(lower(exported), tmp_path, **ON_DEVICE)
    with torch.no_grad():
        check(_run(path, inputs), [model(*inputs).cpu()], _TOLERANCE[case.dtype])


class Cache(nn.Module):
    """One step over a cache whose keys and values are NaN from position 64 on."""

    def __init__(self, dtype: torch.dtype, items: int) -> None:
        super().__init__()
        self.k = nn.Buffer(torch.randn(2, 2, 512, items, device="cuda", dtype=dtype))
        self.v = nn.Buffer(torch.randn(2, 2, 512, items, device="cuda", dtype=dtype))
        self.k[:, :, 64:] = self.v[:, :, 64:] = torch.nan

    def forward(self, q: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(512, device="cuda") < length[:, None]
        return F.scaled_dot_product_attention(
            q, self.k, self.v, attn_mask=mask[:, None, None], enable_gqa=True
        )


@pytest.mark.parametrize("items", [64, 72])
@pytest.mark.parametrize("dtype", _TOLERANCE)
def test_what_the_mask_hides_is_not_read(
    dtype: torch.dtype, items: int, tmp_path: pathlib.Path
) -> None:
    """Eager's 0 * NaN is NaN; both are accepted when a program is verified."""
    torch.manual_seed(0)
    module = Cache(dtype, items)
    q = torch.randn(2, 8, 1, items, device="cuda", dtype=dtype)
    inputs = (q, torch.tensor([40, 7], device="cuda"))
    method = load(save(lower(torch.export.export(module, inputs)), tmp_path, **ON_DEVICE))
    (found,) = method.load_method("forward").execute(list(inputs))
    for row, length in enumerate((40, 7)):
        part = slice(row, row + 1), slice(None), slice(length)
        expected = F.scaled_dot_product_attention(
            q[part[0]], module.k[part], module.v[part], enable_gqa=True
        )
        check([found[part[0]]], [expected.cpu()], _TOLERANCE[dtype])


_WITHOUT = """
import sys, torch
from pteron.backends.cuda.tests.programs import load
path, inputs, found = sys.argv[1:]
method = load(__import__("pathlib").Path(path)).load_method("forward")
torch.save([x.cpu() for x in method.execute(torch.load(inputs))], found)
"""


@pytest.mark.parametrize("name", ["causal", "padding"])
def test_without_cudnn(name: str, tmp_path: pathlib.Path) -> None:
    """What was lowered beside cuDNN runs without it, with the kernels of the runtime."""
    case = CASES[name]
    model, inputs = _model(case), _inputs(case)
    path = save(lower(torch.export.export(model, inputs)), tmp_path, **ON_DEVICE)
    arguments, found = tmp_path / "inputs.pt", tmp_path / "found.pt"
    torch.save(list(inputs), arguments)
    subprocess.run(
        [sys.executable, "-c", _WITHOUT, str(path), str(arguments), str(found)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PTERON_CUDNN": "off"},
        check=True,
    )
    with torch.no_grad():
        check(torch.load(found), [model(*inputs).cpu()], _TOLERANCE[case.dtype])
