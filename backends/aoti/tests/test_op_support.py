"""Which operators can be delegated, and what is said of the others."""

import pytest
import torch

from pteron.backends.aoti import shim_list
from pteron.backends.aoti.inductor import Target
from pteron.backends.aoti.op_support import OpSupport

aten = torch.ops.aten


def reasons(module: torch.nn.Module, *inputs: torch.Tensor, leave_out=(), shims=None) -> dict:
    """Operator to reason, of all calls that cannot be delegated."""
    program = torch.export.export(module, inputs).run_decompositions()
    names = shim_list.load("cpu").names if shims is None else shims
    support = OpSupport(Target("cpu"), names, leave_out)
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


class Draw(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.multinomial(torch.softmax(x, -1), 2)


def test_an_operator_without_a_c_function_is_refused() -> None:
    found = reasons(Draw(), torch.randn(2, 4))
    assert found == {
        "aten.multinomial.default": (
            "aten.multinomial.default has no C function that compiled code could call"
        )
    }


class Median(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.median() + 1


def test_a_function_that_the_runtime_lacks_is_named() -> None:
    found = reasons(Median(), torch.randn(9), shims=frozenset({"aoti_torch_cpu_mm_out"}))
    assert list(found) == ["aten.median.default"]
    assert "aoti_torch_cpu_median, which the runtime does not have" in found["aten.median.default"]
    assert reasons(Median(), torch.randn(9), shims=frozenset({"aoti_torch_cpu_median"})) == {}


def test_a_custom_operator_is_refused() -> None:
    @torch.library.custom_op("pteron_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    class Custom(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return twice(x) + 1

    assert "no C function" in reasons(Custom(), torch.randn(3))["pteron_test.twice.default"]


class Branches(torch.nn.Module):
    def __init__(self, supported: bool) -> None:
        super().__init__()
        self.supported = supported

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def draw(x: torch.Tensor) -> torch.Tensor:
            return x.sin() if self.supported else x * torch.linalg.det(x)

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
    class Rotate(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.view_as_complex(x)
            return torch.view_as_real(y * y)

    names = shim_list.load("cpu").names
    assert reasons(Rotate(), torch.randn(4, 2)) == {}
    without = names - {"aoti_torch_cpu_mul_Tensor"}
    assert list(reasons(Rotate(), torch.randn(4, 2), shims=without)) == ["aten.mul.Tensor"]
