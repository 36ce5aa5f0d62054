"""Batch norms that go into the weights of convolutions."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram, export

from pteron.backends.aoti.ops.convolution.convolution import CONVOLUTION
from pteron.backends.aoti.passes.fold_batch_norms import fold_batch_norms
from pteron.exir.operators.decompositions import decompose, functionalize

NORM = torch.ops.aten._native_batch_norm_legit_no_training.default
Module = Callable[..., nn.Module]


def settled(module: nn.Module) -> nn.Module:
    """With statistics as if it had seen something."""
    torch.manual_seed(0)
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            assert part.running_mean is not None and part.running_var is not None
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)
            if part.affine:
                part.weight.data.normal_()
                part.bias.data.normal_()
    return module.eval()


def program_of(module: nn.Module, x: torch.Tensor) -> ExportedProgram:
    return decompose(functionalize(export(module, (x,))), ())


def count(program: ExportedProgram, op: torch._ops.OpOverload) -> int:
    return len(program.graph.find_nodes(op="call_function", target=op))


@pytest.mark.parametrize(
    ("convolution", "norm", "sizes"),
    [
        (lambda: nn.Conv2d(6, 8, 3, bias=False), nn.BatchNorm2d, (7, 7)),
        (lambda: nn.Conv2d(6, 8, 3, groups=2), lambda n: nn.BatchNorm2d(n, affine=False), (7, 7)),
        (lambda: nn.Conv1d(6, 8, 3), nn.BatchNorm1d, (9,)),
        (lambda: nn.Conv3d(6, 8, 2), nn.BatchNorm3d, (4, 4, 4)),
        (lambda: nn.ConvTranspose2d(6, 8, 3, stride=2), nn.BatchNorm2d, (5, 5)),
        (lambda: nn.ConvTranspose2d(6, 8, 3, groups=2, bias=False), nn.BatchNorm2d, (5, 5)),
    ],
)
def test_results_stay(convolution: Module, norm: Module, sizes: tuple[int, ...]) -> None:
    model = settled(nn.Sequential(convolution(), norm(8), nn.ReLU()))
    x = torch.randn(2, 6, *sizes)
    program = program_of(model, x)
    fold_batch_norms(program)
    program.graph_module.graph.lint()
    assert count(program, NORM) == 0 and count(program, CONVOLUTION) == 1
    torch.testing.assert_close(program.module(check_guards=False)(x), model(x))
    # The tensors that nothing reads any more are not kept.
    assert {name for name in program.state_dict if not name.startswith("p_")} == {
        "1.num_batches_tracked"
    }


def test_a_result_of_the_program_keeps_its_name() -> None:
    model = settled(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)))
    program = program_of(model, torch.randn(1, 3, 4, 4))
    (before,) = program.graph_signature.user_outputs
    fold_batch_norms(program)
    (result,) = program.graph.output_node().args[0]  # type: ignore[misc]
    assert isinstance(result, torch.fx.Node)
    assert result.name == before


class Shared(nn.Module):
    """A convolution whose result is also used as it is, and one whose weight another reads."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        y = y + self.norm(y)
        return self.norm(self.second(y)) + self.second(y) + self.norm(x)


def test_what_others_use_stays() -> None:
    model = settled(Shared())
    x = torch.randn(2, 4, 3, 3)
    program = program_of(model, x)
    fold_batch_norms(program)
    # Of three, one follows a convolution that nothing else reads.
    assert count(program, NORM) == 2
    torch.testing.assert_close(program.module(check_guards=False)(x), model(x))


class Given(nn.Module):
    """A weight that is no tensor of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(nn.functional.conv2d(x, x[:4, :, :2, :2] * 2))


def test_weights_that_are_computed_stay() -> None:
    program = program_of(settled(Given()), torch.randn(4, 4, 5, 5))
    fold_batch_norms(program)
    assert count(program, NORM) == 1
