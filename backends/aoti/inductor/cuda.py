"""Machine code of CUDA kernels, collected where Inductor compiled it."""

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pteron.backends.aoti.inductor.architectures import machine_code
from pteron.backends.aoti.inductor.patched import environment


@contextlib.contextmanager
def kernel_folder() -> Iterator[str]:
    """A folder of this compilation alone, where Inductor leaves the machine code of kernels. Those
    of earlier compilations, which may have the same names, are forgotten. Kernels do not say which
    file they came from: equal kernels are equal bytes."""
    from torch._inductor.codecache import CudaKernelParamCache

    with (
        environment({"TRITON_DISABLE_LINE_INFO": "1"}),
        tempfile.TemporaryDirectory(prefix="pteron-kernels-") as folder,
    ):
        before = dict(CudaKernelParamCache.cache)
        CudaKernelParamCache.cache.clear()
        try:
            yield folder
        finally:
            CudaKernelParamCache.cache.clear()
            CudaKernelParamCache.cache.update(before)


_EMBEDDED_KERNEL = re.compile(r"extern const unsigned char __(\w+)_start\[\];")


def device_kernels(wrapper: str) -> dict[str, bytes]:
    """The machine code of each kernel that `wrapper` declares: a cubin, or several in one."""
    from torch._inductor.codecache import CudaKernelParamCache, get_cpp_wrapper_cubin_path_name

    kernels = {}
    for name in sorted(set(_EMBEDDED_KERNEL.findall(wrapper))):
        if entry := CudaKernelParamCache.cache.get(name):
            cubin = Path(entry[get_cpp_wrapper_cubin_path_name()]).read_bytes()
            kernels[name] = machine_code(entry, cubin, _architecture_here())
    return kernels


def _architecture_here() -> str:
    import torch

    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"
