"""Code of a GPU's host part alone, which tells what is called, on a machine without a GPU, too.

Inductor compiles a GPU's kernels while it writes the code that launches them. Who only asks for
the calls of operators needs neither kernels nor Triton nor the GPU.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from pteron.backends.aoti.inductor.patched import patched


@contextlib.contextmanager
def without_kernels() -> Iterator[None]:
    """Inside, code for a GPU is generated without its kernels and the lines that launch them."""
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen
    from torch._inductor.scheduler import Scheduler

    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(Scheduler, "create_backend", _backend))
        stack.enter_context(
            patched(PythonWrapperCodegen, "generate_and_run_autotune_block", _nothing)
        )
        if not torch.cuda.is_available():
            stack.enter_context(_without_gpu())
        yield


def _backend(scheduler: Any, device: torch.device) -> Any:
    """The device's scheduling, which decides what becomes one kernel, but writes none."""
    from torch._inductor.codegen.common import get_scheduling_for_device
    from torch._inductor.virtualized import V

    V.graph.add_device_info(device)
    backend = get_scheduling_for_device(device.type)(scheduler)  # type: ignore[misc]
    if device.type != "cpu":
        for kind in ("node", "template", "combo_kernel", "mix_order_reduction"):
            setattr(backend, f"codegen_{kind}", _allocate_results)
        for name in ("codegen_sync", "flush", "ready_to_flush"):
            setattr(backend, name, _nothing)
    return backend


def _allocate_results(node: Any, *_: Any, **__: Any) -> None:
    for each in node.get_nodes():
        each.mark_run()


def _nothing(*_: Any) -> None:
    pass


@contextlib.contextmanager
def _without_gpu() -> Iterator[None]:
    """What Inductor would ask the GPU while it lowers operators. The numbers, of an H100, decide
    into how many parts a reduction is cut; they decide no call."""
    from torch._inductor.fx_passes import joint_graph
    from torch._inductor.runtime.hints import DeviceProperties
    from torch._subclasses import FakeTensor

    def properties(device: torch.device) -> DeviceProperties:
        return DeviceProperties(
            type=device.type,
            index=device.index,
            multi_processor_count=132,
            cc=90,
            major=9,
            regs_per_multiprocessor=65536,
            max_threads_per_multi_processor=2048,
            max_threads_per_block=1024,
            warp_size=32,
        )

    def item(tensor: torch.Tensor, index: Any) -> torch.Tensor:
        return tensor.select(0, index) if type(index) is int else subscript(tensor, index)

    subscript = torch.Tensor.__getitem__
    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(DeviceProperties, "create", staticmethod(properties)))
        # Without CUDA in torch no tensor of it has a subscript; `seeds[index]` is one.
        stack.enter_context(patched(FakeTensor, "__getitem__", item))
        # It traces its patterns with tensors on the GPU.
        stack.enter_context(patched(joint_graph, "lazy_init", _nothing))
        yield
