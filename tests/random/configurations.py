"""Options that random modules are lowered with.

On the CPU they cover each value of `weights`, of `gemm` and both widths of vectors, and code for
one thread and for two; on a GPU each way to multiply.
"""

import dataclasses
from typing import Any

from pteron.backends.cpu import CpuOptions, CpuPartitioner


@dataclasses.dataclass(frozen=True)
class Configuration:
    """A name, the device that modules are exported on, and the backend's options."""

    name: str
    device: str
    options: Any

    def partitioner(self) -> Any:
        if self.device == "cuda":
            from pteron.backends.cuda import CudaPartitioner

            return CudaPartitioner(self.options)
        return CpuPartitioner(self.options)


def _cpu(weights: str, gemm: str, isa: str, threads: int) -> Configuration:
    return Configuration(
        f"{weights}-{gemm}-{isa.removeprefix('x86-64-')}",
        "cpu",
        CpuOptions(isa, weights, threads, gemm=gemm),
    )


_CPU = (
    _cpu("packed", "template", "x86-64-v3", 1),
    _cpu("packed", "template", "x86-64-v4", 2),
    _cpu("packed", "library", "x86-64-v3", 2),
    _cpu("shared", "library", "x86-64-v4", 1),
)


def configurations(device: str) -> dict[str, Configuration]:
    """All of a device, "cpu" or "cuda", by name."""
    if device == "cpu":
        return {each.name: each for each in _CPU}
    from pteron.backends.cuda import CudaOptions

    return {
        gemm: Configuration(gemm, "cuda", CudaOptions(gemm=gemm, save_data_externally=False))
        for gemm in ("cublas", "triton", "best")
    }
