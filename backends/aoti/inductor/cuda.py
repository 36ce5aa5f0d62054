"""Collects the cubins of CUDA kernels that Inductor compiled."""

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from pteron.backends.aoti.inductor.architectures import capability, machine_code
from pteron.backends.aoti.inductor.patches import Context, wrapped


@contextlib.contextmanager
def kernel_folder() -> Iterator[str]:
    """A temporary folder for the cubins of one compilation. Kernels of earlier compilations, which
    may have the same names, are hidden. Line information is disabled: equal kernels have equal
    cubins."""
    from torch._inductor.codecache import CudaKernelParamCache

    with (
        mock.patch.dict(os.environ, {"TRITON_DISABLE_LINE_INFO": "1"}),
        mock.patch.dict(CudaKernelParamCache.cache, clear=True),
        tempfile.TemporaryDirectory(prefix="pteron-kernels-") as folder,
    ):
        yield folder


def saved_kernels() -> Context:
    """Kernels that are run while code is generated are saved.

    With torch 2.13 and newer those that an earlier compilation in this process has run would only
    be launched. Those with device asserts are not run, and not autotuned: values are random then,
    and a failed assert corrupts the CUDA context. The first configuration is taken.

        table[(x * 255).long()]
    """
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    def run_or_save(run: Any, kernel: Any, *args: Any, stream: Any, **more: Any) -> Any:
        kernel._cached_launcher = None
        if "tl.device_assert" not in kernel.fn.src:
            return run(kernel, *args, stream=stream, **more)
        if not kernel.launchers:
            kernel.precompile()
        kernel.launchers = kernel.launchers[:1]
        kernel.save_gpu_kernel(stream, kernel.launchers[0])
        return None

    return wrapped(CachingAutotuner, "run", run_or_save)


def device_from_constants() -> Context:
    """A program with constants on the GPU is a GPU program, even if it computes on the host only.

    Inductor considers only nodes that compute ("Mixed-device constants are only supported ...").
    """
    from torch._inductor.graph import GraphLowering

    def begin_on_device(begin: Callable[..., None], graph: Any, *args: Any, **more: Any) -> None:
        graph.device_types.update(value.device.type for value in graph.constants.values())
        begin(graph, *args, **more)

    return wrapped(GraphLowering, "init_wrapper_code", begin_on_device)


#: The first lines of a kernel, below Inductor's decorator of it.
_HEAD = re.compile(r"(^\)\n@triton\.jit\ndef [\w.]+\(.*\):\n)", re.MULTILINE)
_WAIT = "    tl.extra.cuda.gdc_launch_dependents()\n    tl.extra.cuda.gdc_wait()\n"


@contextlib.contextmanager
def kernels_that_wait(gpu: str, architectures: Sequence[str]) -> Iterator[set[str]]:
    """Inside, if all GPUs can (sm_90), kernels wait for those before and let the next one start
    (cuda/decisions/2026-11-27-decoding-steps.md). Yields the names of those that do."""
    from torch._inductor.codegen.triton import TritonScheduling

    waiting: set[str] = set()

    def define_waiting(define: Any, scheduling: Any, source: str, *args: Any, **more: Any) -> Any:
        here = gpu or "sm_{}{}".format(*torch.cuda.get_device_capability())
        can = min(map(capability, (here, *architectures))) >= 90
        source, count = _HEAD.subn(rf"\1{_WAIT}", source) if can else (source, 0)
        name = define(scheduling, source, *args, **more)
        waiting.update([name] * count)
        return name

    with wrapped(TritonScheduling, "define_kernel", define_waiting):
        yield waiting


def launched_early(model: str, waiting: set[str]) -> str:
    """`model` that launches its kernels while those before them end, if all of them wait."""
    if not waiting or set(_EMBEDDED_KERNEL.findall(model)) - waiting:
        return model
    early = 'extern "C" decltype(cuLaunchKernel) cuLaunchKernelEarly;\n'
    head, launch, rest = model.partition("static inline void launchKernel(")
    return head + early + launch + rest.replace("cuLaunchKernel(", "cuLaunchKernelEarly(", 1)


_EMBEDDED_KERNEL = re.compile(r"extern const unsigned char __(\w+)_start\[\];")


def device_kernels(wrapper: str) -> dict[str, bytes]:
    """The cubin, or fat binary, of each kernel that `wrapper` declares."""
    from torch._inductor.codecache import CudaKernelParamCache, get_cpp_wrapper_cubin_path_name

    kernels = {}
    for name in sorted(set(_EMBEDDED_KERNEL.findall(wrapper))):
        if entry := CudaKernelParamCache.cache.get(name):
            cubin = Path(entry[get_cpp_wrapper_cubin_path_name()]).read_bytes()
            here = "sm_{}{}".format(*torch.cuda.get_device_capability())
            kernels[name] = machine_code(entry, cubin, here)
    return kernels
