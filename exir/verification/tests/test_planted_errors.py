"""An error of 1 % in one channel is found in every sort of model, and nothing where none is.

What is compared is the functional program with an error, and rounding of its own, in place of the
lowered program: where in a model the error is makes no difference to the comparison.
"""

import functools
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Interpreter, Node

from pteron.exir.graph.exported_program import input_specs_by_name
from pteron.exir.operators.decompositions import functionalize
from pteron.exir.verification import execution
from pteron.exir.verification.call import call
from pteron.exir.verification.comparison import errors
from pteron.exir.verification.interpreters import RoundingInterpreter, typical_magnitude
from pteron.exir.verification.reference import Reference
from pteron.exir.verification.verify import MethodVerification, differences, verify_method
from tests.models import gpt, parameter_views
from tests.models.cases import Together
from tests.models.features import FEATURES
from tests.models.networks import NETWORKS, ConvNet, MlpBlock
from tests.models.random_modules import RandomModule
from tests.models.sample import randn

_SEED = 1000  # another than the comparison's
_FOUND, _FOUND_IN_HALVES = 1e-4, 0.2
"""Of what is around an element: an error that changes one by more is to be found. A bfloat16 is
rounded by up to 0.4 %, and ten times what rounding does is accepted."""


class Planted(RoundingInterpreter):
    """Computes one channel of one result 1 % too large; rounds in another way than others do."""

    def __init__(self, module: Any, node: Node | None = None, dim: int = 0, channel: int = 0):
        super().__init__(module, seed=_SEED)
        self._node, self._dim, self._channel = node and node.name, dim, channel

    def user_input(self, value: Any) -> Any:
        # What the runtime hands to code that was compiled for this layout.
        value = value.contiguous() if isinstance(value, torch.Tensor) else value
        return super().user_input(value)

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n.name != self._node:
            return result
        first, *others = result if isinstance(result, tuple) else (result,)
        first = first.clone()
        first.select(self._dim, self._channel % first.shape[self._dim]).mul_(1.01)
        return (first, *others) if isinstance(result, tuple) else first


def verified(
    reference: Reference,
    interpreter: Callable[[Any], Interpreter],
    patched: pytest.MonkeyPatch,
    seconds: float,
) -> MethodVerification:
    class Execution:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            pass

        def run(self, calls: Callable[[], Any]) -> list[list[Any]]:
            state, results = reference.state(), []
            for inputs in calls():
                outputs = call(reference.functional, inputs, state, interpreter)
                results.append(outputs + [inputs[i] for i in reference.changed_inputs])
            return results

    patched.setattr(execution, "Execution", Execution)
    tables: Any = SimpleNamespace(delegates=[], outputs=[])
    return verify_method(nullcontext(), tables, reference, seconds)  # type: ignore[arg-type]


def with_weights(program: ExportedProgram) -> list[Node]:
    """Calls of operators that use weights and compute with what is no weight."""
    specs = input_specs_by_name(program)
    weights: set[Node] = set()
    found = []
    for node in program.graph.nodes:
        inputs = node.all_input_nodes
        if node.op == "placeholder" and specs[node.name].kind is InputKind.PARAMETER:
            weights.add(node)
        elif inputs and weights.issuperset(inputs):
            weights.add(node)
        elif node.op == "call_function" and not weights.isdisjoint(inputs):
            value = _first(node.meta.get("val"))
            if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim():
                found.append(node)
    return found


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, tuple | list) else value


def _channels(node: Node) -> int:
    of_images = any(name in str(node.target) for name in ("conv", "batch_norm"))
    return 1 if of_images else int(_first(node.meta["val"]).dim()) - 1


def _has_halves(program: ExportedProgram) -> bool:
    values = [node.meta.get("val") for node in program.graph.nodes]
    halves = (torch.float16, torch.bfloat16)
    return any(isinstance(v, torch.Tensor) and v.dtype in halves for v in values)


def _effect(reference: Reference, planted: Any) -> float:
    """The largest that an error has on an element, relative to what is around it."""
    largest = [0.0]
    right, wrong = (reference.run_functional(kind) for kind in (Planted, planted))
    for a, b in zip((v for c in wrong for v in c), (v for c in right for v in c), strict=True):
        off = errors(a, b)
        assert off is not None
        if b.is_floating_point() and off.numel():
            largest.append(
                float((off / typical_magnitude(b.abs().double())).nan_to_num(nan=0).max())
            )
    return max(largest)


def _random(seed: int) -> ExportedProgram:
    module = RandomModule(seed).eval()
    return torch.export.export(module, module.inputs(0), dynamic_shapes=module.dynamic_shapes())


def _together(cases: Any) -> ExportedProgram:
    together = Together(cases)
    return torch.export.export(together, together.inputs())


_PROGRAMS: dict[str, Callable[[], ExportedProgram]] = {
    **{sample.name: sample.export for sample in (*NETWORKS, *FEATURES)},
    **{
        name: functools.partial(lambda n: gpt.export_methods(gpt.make_gpt(layers=2))[n], name)
        for name in ("prefill", "decode")
    },
    **{
        case.name: functools.partial(_together, [case])
        for case in (*parameter_views.PRODUCTS, *parameter_views.ATTENTION, *parameter_views.OTHERS)
    },
    **{f"random_{seed}": functools.partial(_random, seed) for seed in range(40)},
}


@pytest.mark.parametrize("name", _PROGRAMS)
def test_planted_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _PROGRAMS[name]()
    reference = Reference(program, functionalize(program))
    right = verified(reference, Planted, monkeypatch, 5)
    assert not right.wrong, right.wrong
    nodes = with_weights(reference.functional)
    has_halves = _has_halves(reference.functional)
    limit = _FOUND_IN_HALVES if has_halves else _FOUND
    found = 0
    for node in dict.fromkeys(nodes[:1] + nodes[len(nodes) // 2 :][:1] + nodes[-1:]):
        planted = functools.partial(Planted, node=node, dim=_channels(node), channel=3)
        report = verified(reference, planted, monkeypatch, 0)
        found += bool(report.wrong)
        assert report.wrong or _effect(reference, planted) < limit, node
    assert found or has_halves or not nodes


@pytest.mark.parametrize(
    ("model", "x", "weight"),
    [
        (MlpBlock(), randn(0, 16, 768), "down"),
        (ConvNet().eval(), randn(0, 1, 3, 96, 96), "head"),
        (nn.Sequential(nn.Conv2d(8, 16, 3)), randn(0, 1, 8, 9, 9), "0"),
        (nn.Sequential(nn.Linear(64, 96), nn.LayerNorm(96)), randn(0, 12, 64), "1"),
    ],
)
def test_in_a_channel_of_small_numbers(
    model: nn.Module, x: torch.Tensor, weight: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer: Any = model.get_submodule(weight)
    with torch.no_grad():
        layer.weight[3] *= 1e-3
        layer.bias[3] *= 1e-3
    program = torch.export.export(model.eval(), (x,))
    reference = Reference(program, functionalize(program))
    assert not verified(reference, Planted, monkeypatch, 0).wrong
    node = with_weights(reference.functional)[-1]
    planted = functools.partial(Planted, node=node, dim=_channels(node), channel=3)
    (wrong,) = verified(reference, planted, monkeypatch, 0).wrong
    assert wrong.error < 1e-4  # of the largest element


class Batched(nn.Module):
    """One batch of images, and something whose least size eager refuses."""

    def __init__(self, refuses: bool = False) -> None:
        super().__init__()
        self.conv, self.refuses = nn.Conv2d(3, 4, 3), refuses

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.conv(x)
        return y, y.argmax(0) if self.refuses else y.sum()


def _wrong(is_wrong: Callable[[torch.Tensor], Any]) -> type[Interpreter]:
    """Adds 1 to the result of a convolution of some inputs."""

    class Wrong(Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            result = super().call_function(target, args, kwargs)
            return result + 1 if "conv" in str(target) and is_wrong(args[0]) else result

    return Wrong


@pytest.mark.parametrize(
    ("is_wrong", "where"),
    [
        (lambda x: len(x) == 1, "where x is [1, 3, 8, 8]"),
        (lambda x: len(x) > 10, "where x is [32, 3, 8, 8]"),
        (lambda x: len(x) == 64, "where x is [64, 3, 8, 8]"),
        (lambda x: x.isnan().any(), "with NaN, infinity and zeros among its inputs"),
        (lambda x: x.stride(-1) == 2, "on its example inputs, strided"),
        (lambda x: x.stride(-1) == 3, "on its example inputs, channels last"),
    ],
)
def test_what_only_other_inputs_show(
    is_wrong: Any, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = ({0: torch.export.Dim("b", max=64)},)
    program = torch.export.export(Batched(), (randn(0, 5, 3, 8, 8),), dynamic_shapes=shapes)
    reference = Reference(program, functionalize(program))
    report = verified(reference, _wrong(is_wrong), monkeypatch, 60)
    assert report.wrong and report.reference is not None and report.reference.where == where
    assert differences("forward", SimpleNamespace(outputs=[0, 0]), report).startswith(  # type: ignore[arg-type]
        f"method 'forward', {where}:\n  output 0: differs by"
    )
    assert not verified(reference, _wrong(is_wrong), monkeypatch, 0).wrong  # the example's alone


def test_sizes_that_the_exported_program_fails_on_are_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shapes = ({0: torch.export.Dim("b", max=8)},)
    program = torch.export.export(Batched(True), (randn(0, 5, 3, 8, 8),), dynamic_shapes=shapes)
    reference = Reference(program, functionalize(program))
    report = verified(reference, _wrong(lambda x: len(x) == 0), monkeypatch, 60)
    assert not report.wrong and list(report.skipped) == ["where x is [0, 3, 8, 8]"]
    assert "where x is [8, 3, 8, 8]" in report.others
    assert "not compared where x is [0, 3, 8, 8]: the exported program fails" in str(report)
