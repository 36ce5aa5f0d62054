"""What Inductor makes of convolutions for a GPU: calls and layouts. No GPU is needed."""

from typing import Any

import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from pteron.backends.aoti import inductor
from pteron.backends.aoti.inductor import Target
from pteron.backends.aoti.inductor.absent_gpu import without_kernels
from pteron.backends.aoti.inductor.convolutions import lower_convolutions_channels_last
from pteron.backends.aoti.inductor.generate import generate_module
from pteron.backends.aoti.ops.convolution.convolution import FUSED_CONVOLUTION


def _two_fused() -> GraphModule:
    """relu(conv(y) + y) for y = relu(conv(x)), on a GPU; x is row-major."""
    graph = Graph()
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)

    def given(name: str, *sizes: int) -> Node:
        node = graph.placeholder(name)
        with mode:
            node.meta["val"] = torch.empty(sizes, device="cuda", dtype=torch.float16)
        return node

    def fused(x: Node, weight: Node, residual: Node | None) -> Node:
        arguments: tuple[Any, ...] = (x, weight, bias, residual, [1, 1], [1, 1], [1, 1], 1, True)
        node = graph.call_function(FUSED_CONVOLUTION, arguments)
        values = (a.meta["val"] if isinstance(a, Node) else a for a in arguments)
        node.meta["val"] = FUSED_CONVOLUTION(*values)
        return node

    x, first, second, bias = (
        given("x", 2, 4, 6, 5), given("first", 8, 4, 3, 3), given("second", 8, 8, 3, 3),
        given("bias", 8),
    )  # fmt: skip
    y = fused(x, first, None)
    graph.output((fused(y, second, y),))
    return GraphModule(nn.Module(), graph)


def test_fused_convolutions_are_calls_of_the_runtime() -> None:
    with without_kernels():
        code = generate_module(_two_fused(), (Target("cuda"),), None)[0]
    assert code.proxied == ()
    (function,) = inductor.operator_functions(code.model)
    assert function == "aoti_torch_cuda_fused_convolution"
    body = code.model[code.model.index("run_impl(") :]
    assert body.count(f"{function}(") == 2
    # The input and two weights are laid out, and the result, as it was traced, is; what is between
    # the two is not.
    assert body.count("aoti_torch_empty_strided(") == 3


class Two(nn.Module):
    """Two convolutions of one weight, and one whose weight is read by something else, too."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.other = nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.other(self.shared(self.shared(x)))
        return y + self.other.weight.sum((1, 2, 3), keepdim=True)[:, :, 0]


def test_weights_are_constants_in_the_layout_of_convolutions() -> None:
    program = torch.export.export(Two().eval(), (torch.randn(1, 8, 12, 12),)).run_decompositions()
    target = Target("cpu", 256, 1, freeze=False)  # which needs no GPU
    with lower_convolutions_channels_last():
        code = inductor.generate(program, target, {"force_layout_optimization": True})
    last = {
        constant.fqn: not constant.tensor.is_contiguous()
        for constant in code.constants
        if constant.tensor.dim() == 4
    }
    assert last == {"shared.weight": True, "other.weight": False}
    assert program.state_dict["shared.weight"].is_contiguous()


def test_inductor_is_put_back() -> None:
    from torch._inductor import lowering
    from torch._inductor.graph import GraphLowering

    before = GraphLowering.decide_layout_opt
    with lower_convolutions_channels_last():
        assert FUSED_CONVOLUTION in lowering.lowerings
    assert GraphLowering.decide_layout_opt is before
    assert FUSED_CONVOLUTION not in lowering.lowerings
    assert FUSED_CONVOLUTION not in lowering.needs_realized_inputs
