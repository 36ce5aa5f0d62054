"""Work that Inductor is kept from repeating."""

from typing import Any

import pytest
import sympy
import torch
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from pteron.backends.aoti import inductor
from pteron.backends.aoti.inductor import memoized
from pteron.backends.aoti.inductor.memoized import fake_constants

_TARGETS = [inductor.Target("cpu", bits, 2, packed_for=512) for bits in (256, 512)]


def _exported(model: torch.nn.Module, *inputs: torch.Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(model.eval(), inputs).run_decompositions()


def test_a_weight_that_variants_read_in_one_layout_is_packed_once() -> None:
    program = _exported(torch.nn.Linear(64, 96), torch.randn(8, 64))
    narrow, wide = inductor.generate_variants(program, _TARGETS)
    places = [{x.tensor.data_ptr() for x in code.constants} for code in (narrow, wide)]
    assert places[0] == places[1]


def test_weights_at_one_address_in_two_layouts_are_two() -> None:
    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(64, 64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight + x @ self.weight.t()

    model, x = Both(), torch.randn(8, 64)
    code = inductor.generate(_exported(model, x), _TARGETS[1])
    packed = [x.tensor for x in code.constants if x.tensor.numel() == 64 * 64]
    assert len(packed) == 2 and not torch.equal(*packed)


def test_operators_on_constants_are_in_the_cache_of_fake_tensors() -> None:
    given: list[type] = []

    class Prop(FakeTensorProp):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            given.extend(map(type, args))
            return super().call_function(target, args, kwargs)

    graph = torch.fx.Graph()
    weight = graph.get_attr("weight")
    graph.output(graph.call_function(torch.ops.aten.relu.default, (weight,)))
    module = torch.fx.GraphModule({"weight": torch.randn(3, 4)}, graph)
    with fake_constants():
        Prop(module).propagate()
    assert given == [torch._subclasses.FakeTensor]
    assert type(module.weight) is torch.Tensor
    (relu,) = graph.find_nodes(op="call_function", target=torch.ops.aten.relu.default)
    assert relu.meta["val"].shape == (3, 4)


def test_rules_of_dtypes_are_set_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.dtype_propagation import DtypePropagationOpsHandler as Handler

    calls: list[None] = []
    set_rules = Handler.__init__
    monkeypatch.setattr(Handler, "__init__", lambda self: calls.append(set_rules(self)))
    inductor.generate(_exported(torch.nn.GELU(), torch.randn(64)), _TARGETS[0])
    assert len(calls) == 1


def test_index_expressions_of_equal_layers_are_parsed_and_printed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memoized.load_inductor()
    from sympy.printing.printer import Printer
    from torch._inductor.codegen import cpp_template_kernel
    from torch._inductor.codegen.cpp_utils import CppPrinter

    parse, print = cpp_template_kernel.parse_expr, Printer.doprint
    texts: list[str] = []

    def parse_noted(text: str) -> Any:
        texts.append(text)
        return parse(text)

    def print_noted(printer: Any, expr: Any) -> Any:
        if isinstance(printer, CppPrinter) and isinstance(expr, sympy.Expr):
            texts.append(str(expr))
        return print(printer, expr)

    monkeypatch.setattr(cpp_template_kernel, "parse_expr", parse_noted)
    monkeypatch.setattr(Printer, "doprint", print_noted)
    counts = []
    for layers in (2, 4):
        texts.clear()
        model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(layers)))
        inductor.generate(_exported(model, torch.randn(8, 64)), _TARGETS[1])
        counts.append(len(texts))
    assert 0 < counts[0] <= counts[1] < 1.5 * counts[0]


def test_patterns_that_are_refused_are_not_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.fx_passes import joint_graph

    traced: list[Any] = []
    monkeypatch.setattr(joint_graph, "lazy_init", lambda *args: traced.append(args))
    inductor.generate(_exported(torch.nn.GELU(), torch.randn(64)), _TARGETS[0])
    assert traced == []


def test_templates_of_inductor_are_compiled_at_first_use() -> None:
    from torch._inductor.codegen.common import KernelTemplate

    compiled: list[str] = []

    def compile_text(text: str) -> Any:
        compiled.append(text)
        return KernelTemplate._template_from_string(text)

    template = memoized._CompiledLater(compile_text, "a {{word}}")
    assert template and not compiled
    assert [template.render(word=word) for word in "bc"] == ["a b", "a c"]
    assert compiled == ["a {{word}}"]
