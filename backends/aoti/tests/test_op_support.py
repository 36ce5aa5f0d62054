"""Which operators can be delegated, and what is said of the others."""

import math

import pytest
import torch
from torch.export import Dim

from pteron.backends.aoti.inductor import Target, fallbacks
from pteron.backends.aoti.op_support import OpSupport
from pteron.backends.aoti.ops import shim_list
from tests.models.cases import Applies

aten = torch.ops.aten


def reasons(
    module: torch.nn.Module,
    *inputs: torch.Tensor,
    leave_out=(),
    shims=None,
    device="cpu",
    shapes=None,
) -> dict:
    """Operator to reason, of all calls that cannot be delegated."""
    program = torch.export.export(module, inputs, dynamic_shapes=shapes).run_decompositions()
    names = shim_list.load(device).names if shims is None else shims
    support = OpSupport(Target(device), names, leave_out)
    return {
        str(node.target): reason
        for node in program.graph.nodes
        if node.op == "call_function" and (reason := support.reason(node)) is not None
    }


class Everyday(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3)
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(self.convolution(x).relu().mean((2, 3)))
        return torch.softmax(y, -1).topk(3)[0].cumsum(-1) + torch.rand(3)


def test_everyday_operators_are_taken() -> None:
    assert reasons(Everyday(), torch.randn(1, 3, 8, 8)) == {}


class PadsToFrames(torch.nn.Module):
    """As codecs and vocoders, which count frames as floats."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        frames = (x.shape[-1] - 4) / 4 + 1
        return torch.nn.functional.pad(x, (0, math.ceil(frames) * 4 - x.shape[-1]))


def test_a_size_that_is_computed_by_floats_is_taken() -> None:
    assert reasons(PadsToFrames(), torch.randn(2, 9), shapes=({1: Dim("n", min=8, max=64)},)) == {}


EXPONENTIAL = Applies(torch.linalg.matrix_exp)


def test_an_operator_without_a_c_function_is_refused() -> None:
    found = reasons(EXPONENTIAL, torch.randn(4, 4))
    assert found == {
        "aten.linalg_matrix_exp.default": (
            "aten.linalg_matrix_exp.default has no C function that compiled code could call"
        )
    }


def test_a_function_that_the_runtime_lacks_is_named() -> None:
    median = Applies(torch.median)
    found = reasons(median, torch.randn(9), shims=frozenset({"aoti_torch_cpu_mm_out"}))
    assert list(found) == ["aten.median.default"]
    assert "aoti_torch_cpu_median, which the runtime does not have" in found["aten.median.default"]
    assert reasons(median, torch.randn(9), shims=frozenset({"aoti_torch_cpu_median"})) == {}


def test_a_custom_operator_is_refused() -> None:
    @torch.library.custom_op("pteron_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    assert "no C function" in reasons(Applies(twice), torch.randn(3))["pteron_test.twice.default"]


CALLED_ON_CUDA = {
    "_int_mm": lambda x: torch._int_mm(x.to(torch.int8), x.to(torch.int8)),
    "_weight_int8pack_mm": lambda x: torch.ops.aten._weight_int8pack_mm(x, x.to(torch.int8), x[0]),
    "_cdist_forward": lambda x: torch.cdist(x, x, p=1.0),
    "histc": lambda x: torch.histc(x),
    "masked_select": lambda x: x.masked_select(x > 0),
    "median": lambda x: x.median(),
    "mm": lambda x: x @ x,
    "randperm": lambda x: torch.randperm(9),
    "sort": lambda x: x.flatten().repeat(100)[: 2**14].sort()[0],
    "view_as_real": lambda x: torch.view_as_real(torch.view_as_complex(x.view(-1, 2))),
}


@pytest.mark.parametrize("name", CALLED_ON_CUDA)
def test_cuda_needs_its_functions_with_and_without_a_gpu(name: str) -> None:
    module = Applies(CALLED_ON_CUDA[name])
    found = reasons(module, torch.randn(32, 32), shims=frozenset(), device="cuda")
    assert any(
        op.startswith(f"aten.{name}.") and f" needs aoti_torch_cuda_{name}" in reason
        for op, reason in found.items()
    ), found


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.cumprod(1),
        lambda x: x.sort()[0],
        lambda x: x.index_select(0, torch.arange(2)),
        lambda x: x.scatter_add(0, x.long(), x),
        lambda x: torch.searchsorted(x, x),
        lambda x: torch.nn.functional.pad(x, (1, 1)),
        lambda x: torch.nn.functional.max_pool2d(x[None], 2),
        lambda x: x.sum(),
    ],
)
def test_cuda_compiles_the_rest_with_and_without_a_gpu(function) -> None:
    assert reasons(Applies(function), torch.rand(4, 4), shims=frozenset(), device="cuda") == {}


def test_code_of_many_kernels_in_one_is_generated_without_a_gpu(monkeypatch) -> None:
    def not_generated(*_: object) -> None:
        raise AssertionError("the tables were asked instead")

    def joined(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x + i for i in range(12)])

    monkeypatch.setattr(fallbacks, "_called_by_table", not_generated)
    assert reasons(Applies(joined), torch.rand(1, 1, 8), shims=frozenset(), device="cuda") == {}


def test_random_numbers_on_cuda_need_a_seed_alone() -> None:
    def draw(x: torch.Tensor) -> tuple:
        return torch.rand(4), torch.randn(4), torch.randint(0, 9, (4,)), torch.bernoulli(x)

    shims = frozenset({"aoti_torch_cuda_randint_low_out"})
    assert reasons(Applies(draw), torch.rand(4), shims=shims, device="cuda") == {}


def test_what_cannot_be_traced_without_a_gpu_goes_by_the_tables() -> None:
    def traced_on_a_gpu(x: torch.Tensor) -> tuple:
        return *torch.geqrf(x), torch.empty(4).exponential_()

    shims = frozenset({"aoti_torch_cuda_randint_low_out"})
    found = reasons(Applies(traced_on_a_gpu), torch.rand(4, 4), shims=shims, device="cuda")
    assert "aten.exponential.default" not in found
    assert "aoti_torch_cuda_geqrf" in found["aten.geqrf.default"]


def test_cuda_has_no_proxy_executor_either() -> None:
    found = reasons(EXPONENTIAL, torch.rand(4, 4), shims=frozenset(), device="cuda")
    assert "has no C function" in found["aten.linalg_matrix_exp.default"]


class Branches(torch.nn.Module):
    def __init__(self, supported: bool) -> None:
        super().__init__()
        self.supported = supported

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def draw(x: torch.Tensor) -> torch.Tensor:
            return x.sin() if self.supported else x * torch.linalg.matrix_exp(x)

        return torch.cond(x.sum() > 0, draw, lambda x: x.cos(), (x,))


def test_a_branch_is_judged_by_what_is_in_it() -> None:
    assert reasons(Branches(True), torch.randn(3, 3)) == {}
    found = reasons(Branches(False), torch.randn(3, 3))
    assert found["cond"].startswith("inside cond: ")


@pytest.mark.parametrize(
    "leave_out",
    [
        [aten.relu.default],
        ["aten.relu"],
        "aten.relu.default",
        lambda node: node.target is aten.relu.default,
    ],
)
def test_operators_can_be_left_out(leave_out) -> None:
    found = reasons(torch.nn.ReLU(), torch.randn(3), leave_out=leave_out)
    assert found == {"aten.relu.default": "aten.relu.default is left out by request"}


def test_complex_numbers_go_by_their_functions() -> None:
    rotate = Applies(lambda x: torch.view_as_real((y := torch.view_as_complex(x)) * y))
    names = shim_list.load("cpu").names
    assert reasons(rotate, torch.randn(4, 2)) == {}
    without = names - {"aoti_torch_cpu_mul_Tensor"}
    assert list(reasons(rotate, torch.randn(4, 2), shims=without)) == ["aten.mul.Tensor"]


class Joins(torch.nn.Module):
    """view merges dimensions, of which the stride is Min(8, 8*n) then."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.view(1, *x.shape).view(1, -1, 8)
        return torch.cat([rows], 1)


class Patches(torch.nn.Module):
    """Numbers of patches are sizes of no tensor but their product."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = x.unflatten(1, (-1, 4)).unflatten(0, (-1, 4)).transpose(1, 2)
        return torch.cat([parts.flatten(2).flatten(0, 1)], 1)


@pytest.mark.parametrize(
    ("module", "sizes", "times"), [(Joins(), (2, 10, 8), 1), (Patches(), (8, 12), 4)]
)
def test_results_do_not_have_to_say_the_sizes_that_they_are_of(
    module: torch.nn.Module, sizes: tuple[int, ...], times: int
) -> None:
    shapes = ({dim: times * torch.export.Dim(f"n{dim}", min=2, max=32) for dim in (0, 1)},)
    program = torch.export.export(module, (torch.randn(sizes),), dynamic_shapes=shapes)
    support = OpSupport(Target("cpu"), shim_list.load("cpu").names)
    calls = program.run_decompositions().graph.find_nodes(
        op="call_function", target=aten.cat.default
    )
    assert [support.reason(node) for node in calls] == [None]
