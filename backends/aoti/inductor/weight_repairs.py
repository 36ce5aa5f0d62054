"""Repairs of what is made of constants: packed products, folded factors."""

import contextlib
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from pteron.backends.aoti.inductor.patched import patched


@contextlib.contextmanager
def weights_from_their_offset() -> Iterator[None]:
    """A product packs a constant that is a view from where the view begins.

        linear(x, p[32:])

    After freezing, `p[32:]` is a constant with a storage offset. Templates of products view it with
    `as_strided` and an offset within the constant, which `as_strided` takes as one within the
    storage: they pack the elements that the storage begins with. While they pack, such a constant
    has a storage of its own.
    """
    from torch._inductor.codegen import cpp_gemm_template

    create = cpp_gemm_template.DataProcessorTemplateWrapper

    def with_offset(
        template: Any, preprocessor: Any, postprocessor: Any, *, input_nodes: Any, **more: Any
    ) -> Any:
        def postprocess(output: Any) -> Any:
            with _own_storages(input_nodes):
                return postprocessor(output)

        return create(template, preprocessor, postprocess, input_nodes=input_nodes, **more)

    with patched(cpp_gemm_template, "DataProcessorTemplateWrapper", with_offset):
        yield


@contextlib.contextmanager
def _own_storages(nodes: Sequence[Any]) -> Iterator[None]:
    """Constants of the graph at hand that `nodes` read begin with their storage inside."""
    from torch._inductor.virtualized import V

    constants = V.graph.constants
    read = {name: constants[name] for node in nodes if (name := node.get_name()) in constants}
    views = {
        name: tensor
        for name, tensor in read.items()
        if tensor.layout is torch.strided and tensor.numel() and tensor.storage_offset()
    }
    for name, view in views.items():
        extent = 1 + sum((n - 1) * s for n, s in zip(view.shape, view.stride(), strict=True))
        copied = view.as_strided((extent,), (1,)).clone()
        constants[name] = copied.as_strided(view.shape, view.stride())
    try:
        yield
    finally:
        constants.update({name: view for name, view in views.items() if name in constants})


@contextlib.contextmanager
def batches_of_any_number() -> Iterator[None]:
    """A product in batches, of which there may be any number, does not pack a weight for each.

        linear(x.transpose(0, 1), p)        # becomes bmm(x, p.expand(batches, ...))

    The template packs as many copies of the constant as the example inputs have batches. With more
    batches the code reads beyond them.
    """
    from torch._inductor.kernel import bmm
    from torch._inductor.virtualized import V

    use = bmm.use_cpp_bmm_template

    def use_if_packed_for_all(layout: Any, mat1: Any, mat2: Any) -> bool:
        is_dynamic = any(getattr(size, "free_symbols", ()) for size in mat2.get_size())
        return not (is_dynamic and mat2.get_name() in V.graph.constants) and use(layout, mat1, mat2)

    with patched(bmm, "use_cpp_bmm_template", use_if_packed_for_all):
        yield


@contextlib.contextmanager
def fix_folded_scale_names() -> Iterator[None]:
    """A scalar that is folded into a convolution's weight gets a buffer name of its own.

        convolution(x, v) * 0.5, convolution(y, w) * 0.25

    Freezing folds such a scalar into the weight by way of the graph's buffer `other_tensor`. All
    scalars had that name, so all weights were multiplied by one of them.
    """
    from torch._inductor import freezing

    passes, create = freezing.freezing_passes, torch.fx.Graph.create_node
    names = itertools.count()

    @functools.wraps(create)
    def create_node(graph: Any, op: str, target: Any, *args: Any, **kwargs: Any) -> Any:
        if op == "get_attr" and target == "other_tensor":
            scalar = graph.owning_module.get_buffer(target)
            target = f"other_tensor_{next(names)}"
            graph.owning_module.register_buffer(target, scalar)
        return create(graph, op, target, *args, **kwargs)

    @functools.wraps(passes)
    def with_names(*args: Any, **kwargs: Any) -> Any:
        with patched(torch.fx.Graph, "create_node", create_node):
            return passes(*args, **kwargs)

    with patched(freezing, "freezing_passes", with_names):
        yield


@contextlib.contextmanager
def transposed_convolutions_unfolded() -> Iterator[None]:
    """What follows a transposed convolution stays out of its weights.

        batch_norm(conv_transpose2d(x, w))

    When weights are frozen, sums and products by channel go into the weights of the convolution
    before them, along their first dimension. That holds the output channels, except in a transposed
    convolution, where it holds the input channels: with as many of both, results were wrong.
    """
    from torch._inductor import freezing

    passes = freezing.freezing_passes

    @functools.wraps(passes)
    def without_transposed(gm: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        convolution = torch.ops.aten.convolution.default
        for node in gm.graph.find_nodes(op="call_function", target=convolution):
            if node.args[6]:
                node.target = _transposed_convolution
        try:
            return passes(gm, *args, **kwargs)
        finally:
            for node in gm.graph.find_nodes(op="call_function", target=_transposed_convolution):
                node.target = convolution

    with patched(freezing, "freezing_passes", without_transposed):
        yield


def _transposed_convolution(*args: Any) -> Any:
    """Stands for the operator where patterns are not to see it."""
    return torch.ops.aten.convolution.default(*args)
