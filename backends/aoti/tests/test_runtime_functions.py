"""Operators that torch has no C function for are calls of the runtime's."""

import re

import pytest
import torch
from torchgen.aoti.fallback_ops import inductor_fallback_ops

from pteron.backends.aoti import inductor
from pteron.backends.aoti.inductor import Target
from pteron.backends.aoti.inductor.absent_gpu import without_kernels
from pteron.backends.aoti.inductor.fallbacks import _module_of
from pteron.backends.aoti.inductor.generate import generate_module
from pteron.backends.aoti.inductor.runtime_functions import (
    declared,
    operator_of,
    register_runtime_functions,
    runtime_functions,
)
from pteron.backends.aoti.op_support import OpSupport
from pteron.backends.aoti.ops import shim_list

aten = torch.ops.aten

#: Lines as a table may have them, with what they stand for.
TABLE = """
AOTI_SHIM(multinomial, 1, Tensor(self), Int(num_samples), Bool(replacement),
          OptionalInt(generator), Result(out))
AOTI_SHIM(_unique2, 1, Tensor(self), Bool(sorted), Bool(return_inverse), Bool(return_counts),
          Result(out), Result(inverse), Result(counts))
AOTI_SHIM(linalg_qr, 1, Tensor(A), String(mode), Result(Q), Result(R))
AOTI_SHIM(histogram_bin_ct, 1, Tensor(self), Int(bins), Result(hist))
AOTI_SHIM(median_dim, 1, Tensor(self), Int(dim), Bool(keepdim), Result(values), Result(indices))
AOTI_SHIM(no_such_operator, 1, Tensor(self))
AOTI_COMMON_SHIM(zero_, 1)
"""
CALLS = {
    "multinomial": (lambda x: torch.multinomial(x, 2), r"\(arg\w+, 2L, 0, nullptr, &buf\w+\)"),
    "_unique2": (
        lambda x: torch.unique(x, return_counts=True),
        r"\(arg\w+, 1, 0, 1, &buf\w+, &buf\w+, &buf\w+\)",
    ),
    "linalg_qr": (torch.linalg.qr, r'\(arg\w+, "reduced", &buf\w+, &buf\w+\)'),
    "median_dim": (lambda x: x.median(1), r"\(arg\w+, 1L, 0, &buf\w+, &buf\w+\)"),
}


class Function(torch.nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor):
        found = self.function(x)
        return found if isinstance(found, torch.Tensor) else tuple(found)


@pytest.fixture
def own_table(monkeypatch) -> None:
    def load(device: str) -> shim_list.ShimList:
        return shim_list.ShimList(shim_list.parse(TABLE, "shims.inc", device))

    monkeypatch.setattr(shim_list, "load", load)


def call_of(function) -> torch.fx.Node:
    """The first operator that `function` of a matrix is exported to."""
    exported = torch.export.export(Function(function), (torch.rand(4, 4),))
    nodes = exported.run_decompositions().graph.nodes
    return next(node for node in nodes if node.op == "call_function")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", CALLS)
def test_generated_code_calls_and_declares_the_runtimes_function(
    own_table, name: str, device: str
) -> None:
    function, arguments = CALLS[name]
    with without_kernels():
        code = generate_module(_module_of(call_of(function), device), (Target(device),), None)[0]
    assert code.proxied == ()
    assert inductor.operator_functions(code.model) == (f"aoti_torch_{device}_{name}",)
    declaration = shim_list.load(device).declarations[f"aoti_torch_{device}_{name}"]
    assert code.model.count(f'\nextern "C" {declaration};\n') == 1
    assert re.search(f"CHECK\\(aoti_torch_{device}_{name}{arguments}\\);", code.model)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_line_of_the_table_is_all_that_the_partitioner_needs(own_table, device: str) -> None:
    node = call_of(lambda x: torch.multinomial(x, 2))
    has_it = shim_list.load(device).names
    assert OpSupport(Target(device), has_it).reason(node) is None
    reason = OpSupport(Target(device), frozenset()).reason(node)
    assert reason == (
        f"aten.multinomial.default needs aoti_torch_{device}_multinomial, "
        "which the runtime does not have"
    )


def test_functions_of_torch_are_not_declared_again(own_table) -> None:
    assert set(runtime_functions("cpu")) == {
        aten.multinomial.default,
        aten._unique2.default,
        aten.linalg_qr.default,
        aten.median.dim,
    }
    model = "#include <a>\n#include <b>\naoti_torch_cpu_histogram_bin_ct(arg0);"
    assert declared(model, "cpu") == model


def test_torchs_list_is_put_back(own_table) -> None:
    before = dict(inductor_fallback_ops)
    with pytest.raises(KeyError), register_runtime_functions("cpu"):
        assert "aten.median.dim" in inductor_fallback_ops
        raise KeyError
    assert inductor_fallback_ops == before


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("multinomial", aten.multinomial.default),
        ("median_dim", aten.median.dim),
        ("unique_dim", aten.unique_dim.default),
        ("_fft_c2r", aten._fft_c2r.default),
        ("fill__Scalar", aten.fill_.Scalar),
        ("scatter_reduce_two_out", aten.scatter_reduce.two_out),
        ("linalg_pinv_atol_rtol_tensor", aten.linalg_pinv.atol_rtol_tensor),
        ("no_such_operator", None),
    ],
)
def test_functions_are_named_after_operators(name: str, op) -> None:
    assert operator_of(name) == op
