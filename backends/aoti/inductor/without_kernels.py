"""Generates only the host code of GPU programs, to find the fallback kernels that it calls.

Inductor compiles GPU kernels while it generates the code that launches them. Which operators the
code calls is known without kernels, Triton or a GPU.
"""

import contextlib
from typing import Any

import torch

from pteron.backends.aoti.inductor.absent_gpu import as_on_gpu, do_nothing
from pteron.backends.aoti.inductor.gpu_properties import properties_of
from pteron.backends.aoti.inductor.patches import Context, patched, together


def without_kernels() -> Context:
    """Inside, GPU code is generated without kernels and their launches."""
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen
    from torch._inductor.scheduler import Scheduler

    # Properties of the GPU affect how reductions are split, but no call.
    has_gpu = torch.cuda.is_available()
    return together(
        patched(Scheduler, "create_backend", _backend),
        patched(PythonWrapperCodegen, "generate_and_run_autotune_block", do_nothing),
        contextlib.nullcontext() if has_gpu else as_on_gpu(properties_of("sm_90")),
    )


def _backend(scheduler: Any, device: torch.device) -> Any:
    """The device's scheduling, which fuses nodes but generates no kernels."""
    from torch._inductor.codegen.common import get_scheduling_for_device
    from torch._inductor.virtualized import V

    V.graph.add_device_info(device)
    backend = get_scheduling_for_device(device.type)(scheduler)  # type: ignore[misc]
    if device.type != "cpu":
        for kind in ("node", "template", "combo_kernel", "mix_order_reduction"):
            setattr(backend, f"codegen_{kind}", _allocate_results)
        for name in ("codegen_sync", "flush", "ready_to_flush"):
            setattr(backend, name, do_nothing)
    return backend


def _allocate_results(node: Any, *_: Any, **__: Any) -> None:
    for each in node.get_nodes():
        each.mark_run()
