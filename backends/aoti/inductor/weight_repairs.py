"""Fixes of how Inductor packs and folds constant weights."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from pteron.backends.aoti.inductor.graph_repairs import hidden
from pteron.backends.aoti.inductor.patches import Context, repair, wrapped

PLACES = "torch._inductor.fx_passes.binary_folding: binary_folding_init"


@repair()
def fix_packed_weight_storage_offset() -> Context:
    """A GEMM template packs a constant with a storage offset from that offset on.

        linear(x, p[32:])    # after freezing, a constant with a storage offset

    GEMM templates view it with `as_strided` and an offset relative to the constant, which
    `as_strided` takes as relative to the storage. While they pack, it is a copy without an offset.
    """
    from torch._inductor.codegen import cpp_gemm_template

    def with_offset(create: Any, template: Any, before: Any, after: Any, **more: Any) -> Any:
        def postprocess(output: Any) -> Any:
            with _without_storage_offsets(more["input_nodes"]):
                return after(output)

        return create(template, before, postprocess, **more)

    return wrapped(cpp_gemm_template, "DataProcessorTemplateWrapper", with_offset)


@contextlib.contextmanager
def _without_storage_offsets(nodes: Sequence[Any]) -> Iterator[None]:
    """Inside, constants of the current graph that `nodes` read have no storage offset."""
    from torch._inductor.virtualized import V

    constants = V.graph.constants
    read = [(name, constants[name]) for n in nodes if (name := n.get_name()) in constants]
    strided = ((name, t) for name, t in read if t.layout is torch.strided and t.numel())
    views = {name: tensor for name, tensor in strided if tensor.storage_offset()}
    for name, view in views.items():
        extent = 1 + sum((n - 1) * s for n, s in zip(view.shape, view.stride(), strict=True))
        copied = view.as_strided((extent,), (1,)).clone()
        constants[name] = copied.as_strided(view.shape, view.stride())
    try:
        yield
    finally:
        constants.update({name: view for name, view in views.items() if name in constants})


@repair()
def fix_packed_weight_of_dynamic_bmm() -> Context:
    """A bmm with a dynamic batch size does not pack an expanded constant weight.

        linear(x.transpose(0, 1), p)        # becomes bmm(x, p.expand(batches, ...))

    The template packs a copy of the constant for each batch of the example inputs. With more
    batches the code reads out of bounds.
    """
    from torch._inductor.kernel import bmm
    from torch._inductor.virtualized import V

    def use_if_packed_for_all(use: Any, layout: Any, mat1: Any, mat2: Any) -> bool:
        is_dynamic = any(getattr(size, "free_symbols", ()) for size in mat2.get_size())
        return not (is_dynamic and mat2.get_name() in V.graph.constants) and use(layout, mat1, mat2)

    return wrapped(bmm, "use_cpp_bmm_template", use_if_packed_for_all)


@repair()
def fix_folded_scale_names() -> Context:
    """A scalar that is folded into a convolution's weight gets a buffer name of its own.

        convolution(x, v) * 0.5, convolution(y, w) * 0.25

    Freezing folds such a scalar into the weight by way of the graph's buffer `other_tensor`. All
    scalars had that name, so all weights were multiplied by one of them.
    """
    from torch._inductor import freezing

    names = itertools.count()

    def create_node(create: Any, graph: Any, op: str, target: Any, *args: Any, **more: Any) -> Any:
        if op == "get_attr" and target == "other_tensor":
            scalar = graph.owning_module.get_buffer(target)
            target = f"other_tensor_{next(names)}"
            graph.owning_module.register_buffer(target, scalar)
        return create(graph, op, target, *args, **more)

    def with_names(passes: Any, *args: Any, **kwargs: Any) -> Any:
        with wrapped(torch.fx.Graph, "create_node", create_node):
            return passes(*args, **kwargs)

    return wrapped(freezing, "freezing_passes", with_names)


@repair()
def skip_folding_into_transposed_convolutions() -> Context:
    """Scales and biases are not folded into the weight of a transposed convolution.

        batch_norm(conv_transpose2d(x, w))

    Freezing folds per-channel additions and multiplications into the weight of the convolution
    before, along its first dimension. That is the output channels, but of a transposed convolution
    the input channels: with as many of both, results were wrong.
    """
    from torch._inductor import freezing

    def without_transposed(passes: Any, gm: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        convolution = torch.ops.aten.convolution.default
        calls = gm.graph.find_nodes(op="call_function", target=convolution)
        with hidden(call for call in calls if call.args[6]):
            return passes(gm, *args, **kwargs)

    return wrapped(freezing, "freezing_passes", without_transposed)
