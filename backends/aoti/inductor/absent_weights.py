"""Weights of a program in GPU-free code generation.

`move_to_absent_gpu` replaces a program's weights by fake tensors on the GPU; the real ones stay on
the host. Inside `real_values`, Inductor reads a weight's values from the real tensor.
"""

import dataclasses
from typing import Any

import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram

from pteron.backends.aoti.inductor.patches import Context, patched, together, wrapped
from pteron.backends.aoti.inductor.release import UnsupportedTorch

_KEY = "pteron_weights_on_the_host"


@dataclasses.dataclass(frozen=True)
class _Weight:
    """A real tensor and the fake one that replaces it, kept so that no other gets its storage."""

    real: torch.Tensor
    fake: torch.Tensor


def move_to_absent_gpu(program: ExportedProgram, device: str) -> ExportedProgram:
    """torch.export's move_to_device_pass with fake weights, so that no GPU is needed."""
    from torch.export.passes import move_to_device_pass

    mode = fake_mode_of(program.graph)
    weights: dict[int, _Weight] = {}

    def stand_in(value: torch.Tensor) -> torch.Tensor:
        host = value.detach().cpu()
        strides = torch.empty_like(host, device="meta").stride()  # of a copy
        with mode:
            fake = torch.empty_strided(host.shape, strides, dtype=host.dtype, device=device)
        if host.stride() != strides or host.storage_offset():
            host = torch.empty_strided(host.shape, strides, dtype=host.dtype).copy_(host)
        weights[_storage(fake)] = _Weight(host, fake)
        if isinstance(value, torch.nn.Parameter):
            return torch.nn.Parameter(fake, requires_grad=False)
        return fake

    for table in (program._state_dict, program._constants):
        for name, value in table.items():
            if isinstance(value, torch.Tensor):
                table[name] = stand_in(value)
    program._example_inputs = None
    # A gradient's graph would ask torch for streams of the device.
    with mode, torch.no_grad():
        program = move_to_device_pass(program, device)
    program.graph_module.meta[_KEY] = weights
    return program


def fake_mode_of(fx_graph: torch.fx.Graph, **created: Any) -> FakeTensorMode:
    """That of the graph's tensors; without any a new one, with the arguments `created`."""
    values = (node.meta.get("val") for node in fx_graph.nodes)
    modes = (value.fake_mode for value in values if isinstance(value, FakeTensor))
    return next(modes, None) or FakeTensorMode(allow_non_fake_inputs=True, **created)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def real_values(module: torch.fx.GraphModule) -> Context:
    """Inside, Inductor reads and compares the values of fake weights by their real tensors."""
    from torch._inductor import graph
    from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder as Folder

    weights: dict[int, _Weight] = module.meta.get(_KEY, {})

    def real(tensor: torch.Tensor) -> torch.Tensor:
        """The real tensor of a fake weight or of a view of one; any other tensor as it is."""
        weight = weights.get(_storage(tensor)) if isinstance(tensor, FakeTensor) else None
        if weight is None:
            return tensor
        return weight.real.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    def of_real(name: str) -> Any:
        of_tensor = getattr(torch.Tensor, name)
        of_fake = getattr(FakeTensor, name)

        def call(self: torch.Tensor) -> Any:
            known = real(self)
            return of_fake(self) if known is self else of_tensor(known)

        return patched(FakeTensor, name, call)

    def contiguous(lay_out: Any, tensor: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        laid_out: torch.Tensor = lay_out(tensor, **kwargs)
        if laid_out is not tensor and (known := real(tensor)) is not tensor:
            weights[_storage(laid_out)] = _Weight(known.contiguous(**kwargs), laid_out)
        return laid_out

    def original_on_the_host(original_value: Any, self: Any, name: str) -> torch.Tensor:
        # Inductor keeps copies of buffers; the real ones do not change meanwhile.
        value = real(self.constants[name])
        if isinstance(value, FakeTensor):
            value = real(original_value(self, name))
        if isinstance(value, FakeTensor):
            raise UnsupportedTorch(
                f"Inductor made the constant {name} of weights, which without a GPU have no values"
            )
        return value

    def deduce_on_the_host(deduce: Any, self: Any, node: torch.fx.Node) -> Any:
        kwargs = node.kwargs
        if kwargs.get("device") is not None:
            node.kwargs = {**kwargs, "device": torch.device("cpu")}
        try:
            value = deduce(self, node)
        finally:
            node.kwargs = kwargs
        if isinstance(value, FakeTensor):
            known = real(value)
            return self.unknown_value if known is value else known
        return value

    return together(
        of_real("item"),
        of_real("tolist"),
        wrapped(FakeTensor, "contiguous", contiguous),
        wrapped(graph.GraphLowering, "get_original_value_of_constant", original_on_the_host),
        wrapped(graph, "is_same_tensor", lambda is_same, a, b: is_same(real(a), real(b))),
        wrapped(Folder, "_deduce_value", deduce_on_the_host),
        # Multiplication by 0: it makes a tensor on the device for each.
        patched(Folder, "_add_peephole_patterns", lambda self: None),
    )
