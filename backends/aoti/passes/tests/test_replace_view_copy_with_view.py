"""Copies become views where nobody can tell, and only there."""

import operator
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx import Graph, GraphModule, Node

from pteron.backends.aoti.passes.replace_view_copy_with_view import (
    ReplaceSliceCopyWithSlicePass,
    ReplaceViewCopyWithViewPass,
    view_of_copy,
)

aten = torch.ops.aten


class Builder:
    """A graph with metadata, made call by call."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.mode = FakeTensorMode()

    def input(self, *shape: int) -> Node:
        node = self.graph.placeholder(f"x{len(self.graph.nodes)}")
        with self.mode:
            node.meta["val"] = torch.empty(*shape)
        return node

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        values = torch.fx.map_arg((args, kwargs), lambda n: n.meta["val"])
        with self.mode:
            value = target(*values[0], **values[1])
        node = self.graph.call_function(target, args, kwargs)
        node.meta["val"] = value
        return node

    def finish(self, *outputs: Node) -> GraphModule:
        self.graph.output(outputs)
        return GraphModule(torch.nn.Module(), self.graph)


def targets(module: GraphModule) -> list[Any]:
    return [node.target for node in module.graph.nodes if node.op == "call_function"]


def test_the_table_has_every_view_of_the_registry() -> None:
    table = {str(copy): str(view) for copy, view in view_of_copy().items()}
    for name in (
        "slice_copy.Tensor select_copy.int view_copy.default transpose_copy.int "
        "permute_copy.default unsqueeze_copy.default squeeze_copy.dims expand_copy.default "
        "split_copy.Tensor "
        "narrow_copy.default diagonal_copy.default alias_copy.default detach_copy.default "
        "as_strided_copy.default unbind_copy.int split_with_sizes_copy.default"
    ).split():
        assert table[f"aten.{name}"] == f"aten.{name}".replace("_copy", "")
    assert not any("sparse" in name or "conj" in name for name in table)


BECOME_VIEWS: dict[Any, tuple[Any, ...]] = {
    aten.slice_copy.Tensor: (0, 1, 3),
    aten.select_copy.int: (0, 1),
    aten.view_copy.default: ([8, 3],),
    aten.transpose_copy.int: (0, 1),
    aten.permute_copy.default: ([2, 0, 1],),
    aten.unsqueeze_copy.default: (1,),
    aten.squeeze_copy.default: (),
    aten.expand_copy.default: ([4, 2, 3],),
    aten.narrow_copy.default: (0, 1, 2),
    aten.diagonal_copy.default: (),
    aten.alias_copy.default: (),
    aten.detach_copy.default: (),
    aten.as_strided_copy.default: ([2, 2], [3, 1], 1),
}


@pytest.mark.parametrize("copy", BECOME_VIEWS, ids=str)
def test_a_copy_that_nobody_writes_becomes_a_view(copy: Any) -> None:
    build = Builder()
    x = build.input(4, 2, 3)
    view = build.call(copy, x, *BECOME_VIEWS[copy])
    module = build.finish(build.call(aten.mul.Tensor, view, 2.0))
    value = torch.randn(4, 2, 3)
    (expected,) = module(value)
    assert ReplaceViewCopyWithViewPass()(module).modified
    assert targets(module)[0] is view_of_copy()[copy]
    (found,) = module(value)
    assert torch.equal(found, expected)
    assert found.stride() == expected.stride()


@pytest.mark.parametrize("copy", [aten.split_copy.Tensor, aten.unbind_copy.int], ids=str)
def test_copies_of_several_parts_become_views(copy: Any) -> None:
    build = Builder()
    parts = build.call(copy, build.input(4, 3), *((2,) if "split" in str(copy) else (0,)))
    first, second = (build.call(operator.getitem, parts, index) for index in (0, 1))
    module = build.finish(build.call(aten.add.Tensor, first, second))
    assert ReplaceViewCopyWithViewPass()(module).modified
    assert targets(module)[0] is view_of_copy()[copy]


def test_the_slice_pass_leaves_other_copies() -> None:
    build = Builder()
    part = build.call(aten.slice_copy.Tensor, build.input(4, 3), 0, 0, 2)
    turned = build.call(aten.permute_copy.default, part, [1, 0])
    module = build.finish(build.call(aten.relu.default, turned))
    assert ReplaceSliceCopyWithSlicePass()(module).modified
    assert targets(module)[:2] == [aten.slice.Tensor, aten.permute_copy.default]


def _source_written(build: Builder) -> GraphModule:
    base = build.call(aten.relu.default, build.input(4, 3))
    copy = build.call(aten.slice_copy.Tensor, base, 0, 0, 2)
    build.call(aten.add_.Tensor, base, 1.0)
    return build.finish(build.call(aten.mul.Tensor, copy, 2.0))


def _copy_written(build: Builder) -> GraphModule:
    base = build.call(aten.relu.default, build.input(4, 3))
    copy = build.call(aten.slice_copy.Tensor, base, 0, 0, 2)
    build.call(aten.add_.Tensor, copy, 1.0)
    return build.finish(build.call(aten.mul.Tensor, base, 2.0))


def _written_through_views(build: Builder) -> GraphModule:
    base = build.call(aten.relu.default, build.input(4, 3))
    copy = build.call(aten.view_copy.default, base, [12])
    row = build.call(aten.select.int, build.call(aten.permute.default, base, [1, 0]), 0, 1)
    build.call(aten.zero_.default, row)
    return build.finish(build.call(aten.mul.Tensor, copy, 2.0))


def _written_through_a_part(build: Builder) -> GraphModule:
    base = build.call(aten.relu.default, build.input(4, 3))
    copy = build.call(aten.view_copy.default, base, [12])
    part = build.call(operator.getitem, build.call(aten.split.Tensor, base, 2), 1)
    build.call(aten.zero_.default, part)
    return build.finish(build.call(aten.mul.Tensor, copy, 2.0))


def _written_by_out(build: Builder) -> GraphModule:
    base = build.call(aten.relu.default, build.input(4, 3))
    copy = build.call(aten.alias_copy.default, base)
    other = build.call(aten.clone.default, base)
    build.call(aten.add.out, other, other, out=base)
    return build.finish(build.call(aten.mul.Tensor, copy, 2.0))


def _written_and_not_returned(build: Builder) -> GraphModule:
    base = build.call(aten.relu.default, build.input(4, 3))
    copy = build.call(aten.view_copy.default, base, [12])
    build.call(aten._foreach_add_.Scalar, [base], 1.0)
    return build.finish(build.call(aten.mul.Tensor, copy, 2.0))


def _written_through_a_copy_of_a_copy(build: Builder) -> GraphModule:
    base = build.call(aten.relu.default, build.input(4, 3))
    first = build.call(aten.slice_copy.Tensor, base, 0, 0, 2)
    second = build.call(aten.select_copy.int, first, 0, 0)
    build.call(aten.add_.Tensor, second, 1.0)
    return build.finish(build.call(aten.add.Tensor, base, 0.0), second)


def _input_written(build: Builder) -> GraphModule:
    state = build.input(4, 3)
    copy = build.call(aten.slice_copy.Tensor, state, 0, 0, 2)
    build.call(aten.copy_.default, state, build.call(aten.relu.default, state))
    return build.finish(build.call(aten.mul.Tensor, copy, 2.0))


def _output_of_input(build: Builder) -> GraphModule:
    return build.finish(build.call(aten.slice_copy.Tensor, build.input(4, 3), 0, 0, 2))


def _output_of_input_through_a_view(build: Builder) -> GraphModule:
    copy = build.call(aten.slice_copy.Tensor, build.input(4, 3), 0, 0, 2)
    return build.finish(build.call(aten.permute.default, copy, [1, 0]))


def _two_outputs(build: Builder) -> GraphModule:
    base = build.call(aten.relu.default, build.input(4, 3))
    return build.finish(base, build.call(aten.slice_copy.Tensor, base, 0, 0, 2))


MUST_STAY: list[Callable[[Builder], GraphModule]] = [
    _source_written,
    _copy_written,
    _written_through_views,
    _written_through_a_part,
    _written_by_out,
    _written_and_not_returned,
    _input_written,
    _output_of_input,
    _output_of_input_through_a_view,
    _two_outputs,
]


@pytest.mark.parametrize("case", MUST_STAY, ids=lambda case: case.__name__.strip("_"))
def test_these_stay_copies(case: Callable[[Builder], GraphModule]) -> None:
    module = case(Builder())
    before = targets(module)
    assert not ReplaceViewCopyWithViewPass()(module).modified
    assert targets(module) == before


def test_only_the_written_one_of_two_copies_stays() -> None:
    module = _written_through_a_copy_of_a_copy(Builder())
    ReplaceViewCopyWithViewPass()(module)
    assert targets(module)[1:3] == [aten.slice.Tensor, aten.select_copy.int]


def test_a_view_that_no_longer_fits_gets_a_clone() -> None:
    build = Builder()
    turned = build.call(aten.permute_copy.default, build.input(4, 3), [1, 0])
    flat = build.call(aten.view.default, turned, [12])
    module = build.finish(build.call(aten.relu.default, flat))
    value = torch.randn(4, 3)
    (expected,) = module(value)
    assert ReplaceViewCopyWithViewPass()(module).modified
    assert targets(module)[:2] == [aten.permute.default, aten.clone.default]
    assert torch.equal(module(value)[0], expected)


def test_as_strided_reads_the_memory_it_was_written_for() -> None:
    build = Builder()
    part = build.call(aten.slice_copy.Tensor, build.input(4, 3), 1, 1, 3)
    module = build.finish(
        build.call(aten.relu.default, build.call(aten.as_strided.default, part, [4], [2], 1))
    )
    value = torch.randn(4, 3)
    (expected,) = module(value)
    ReplaceViewCopyWithViewPass()(module)
    assert torch.equal(module(value)[0], expected)


def test_an_output_keeps_its_strides() -> None:
    build = Builder()
    turned = build.call(aten.permute_copy.default, build.input(4, 3), [1, 0])
    module = build.finish(build.call(aten.relu.default, turned))
    assert ReplaceViewCopyWithViewPass()(module).modified
    (result,) = module(torch.randn(4, 3))
    assert result.is_contiguous()
    (returned,) = module.graph.output_node().all_input_nodes
    assert returned.meta["val"].stride() == result.stride()


def random_module(seed: int) -> tuple[GraphModule, list[torch.Tensor]]:
    """A small graph of copies, views, arithmetic and writes, and inputs for it."""
    choose = random.Random(seed)
    build = Builder()
    values = [build.input(4, 6), build.input(6, 4)]
    values.append(build.call(aten.relu.default, values[0]))
    for _ in range(choose.randint(4, 12)):
        source = choose.choice(values)
        shape = source.meta["val"].shape
        kind = choose.randrange(10)
        dim = choose.randrange(len(shape)) if shape else 0
        suffix = choose.choice(["", "_copy", "_copy"])
        if kind < 2 and len(shape) > 1:
            order = list(range(len(shape)))
            choose.shuffle(order)
            values.append(build.call(getattr(aten, f"permute{suffix}").default, source, order))
        elif kind == 2 and shape and shape[dim] > 1:
            op = getattr(aten, f"slice{suffix}").Tensor
            start = choose.randrange(shape[dim] - 1)
            values.append(build.call(op, source, dim, start, shape[dim]))
        elif kind == 3 and len(shape) > 1:
            op = getattr(aten, f"select{suffix}").int
            values.append(build.call(op, source, dim, choose.randrange(shape[dim])))
        elif kind == 4:
            try:
                op = getattr(aten, f"view{suffix}").default
                values.append(build.call(op, source, [source.meta["val"].numel()]))
            except (RuntimeError, ValueError):
                continue
        elif kind == 5:
            values.append(build.call(getattr(aten, f"unsqueeze{suffix}").default, source, dim))
        elif kind == 6 and shape and shape[dim] > 1:
            parts = build.call(getattr(aten, f"split{suffix}").Tensor, source, 1, dim)
            values.append(build.call(operator.getitem, parts, choose.randrange(shape[dim])))
        elif kind == 7:
            op = choose.choice([aten.relu.default, aten.neg.default, aten.sin.default])
            values.append(build.call(op, source))
        elif kind == 8:
            same = [v for v in values if v.meta["val"].shape == shape]
            values.append(build.call(aten.add.Tensor, source, choose.choice(same)))
        elif kind == 9 and choose.random() < 0.5:
            op = choose.choice([aten.add_.Tensor, aten.mul_.Tensor])
            build.call(op, source, 2.0)
    outputs = choose.sample(values[2:], k=min(len(values) - 2, choose.randint(1, 3)))
    generator = torch.Generator().manual_seed(seed)
    inputs = [torch.randn(4, 6, generator=generator), torch.randn(6, 4, generator=generator)]
    return build.finish(*outputs), inputs


def observe(module: GraphModule, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Outputs, inputs afterwards, and all of these again after the caller wrote each output."""
    inputs = [value.clone() for value in inputs]
    outputs = list(module(*inputs))
    seen = [value.clone() for value in (*outputs, *inputs)]
    for output in outputs:
        output.add_(1.0)
        seen += [value.clone() for value in (*outputs, *inputs)]
    return seen


def test_random_graphs_compute_what_they_did() -> None:
    replaced = 0
    for seed in range(400):
        module, inputs = random_module(seed)
        expected = observe(module, inputs)
        strides = [n.meta["val"].stride() for n in module.graph.output_node().all_input_nodes]
        replaced += ReplaceViewCopyWithViewPass()(module).modified
        module.graph.lint()
        found = observe(module, inputs)
        message = f"random_module({seed}):\n{module.graph}"
        assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True)), message
        returned = module.graph.output_node().all_input_nodes
        assert [n.meta["val"].stride() for n in returned] == strides, message
    assert replaced > 100
