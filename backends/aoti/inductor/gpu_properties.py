"""Properties of GPUs by architecture, for GPU-free code generation.

Limits of an architecture are those of the table of technical specifications per compute capability
in NVIDIA's CUDA C++ Programming Guide (13.0). The number of multiprocessors and the memory differ
within an architecture; those of one product are taken, which its data sheet or architecture paper
gives. They affect how work is split, never results.
"""

import dataclasses
from typing import Any

from pteron.backends.aoti.inductor.architectures import UnsupportedArchitecture


@dataclasses.dataclass(frozen=True)
class GpuProperties:
    """Properties of a GPU that code generation queries; sizes are in bytes."""

    name: str  # of the product
    major: int  # of the compute capability
    minor: int
    multi_processor_count: int  # of the product
    max_threads_per_multi_processor: int
    shared_memory_per_block_optin: int  # what a block can have where it asks for it
    shared_memory_per_multiprocessor: int
    l2_cache_size: int
    total_memory: int

    @property
    def capability(self) -> int:
        """As Triton has it: 90 for 9.0."""
        return 10 * self.major + self.minor

    def as_hints(self) -> dict[str, Any]:
        """Fields of Inductor's DeviceProperties."""
        return {
            "multi_processor_count": self.multi_processor_count,
            "major": self.major,
            "regs_per_multiprocessor": 65536,
            "max_threads_per_multi_processor": self.max_threads_per_multi_processor,
            "max_threads_per_block": 1024,
            "warp_size": 32,
        }

    def as_torch_properties(self) -> dict[str, Any]:
        """Attributes of what torch.cuda.get_device_properties returns."""
        return {
            **dataclasses.asdict(self),
            **self.as_hints(),
            "shared_memory_per_block": 48 << 10,
            "L2_cache_size": self.l2_cache_size,
            "is_integrated": 0,
            "is_multi_gpu_board": 0,
            "gcnArchName": "",
        }


_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30

# Multiprocessors, L2 and memory: architecture papers of A100, GA102, AD102, H100 (SXM5), and the
# data sheets of B200 and RTX PRO / GeForce RTX 5090 (GB202).
_GPUS = (
    GpuProperties("NVIDIA A100", 8, 0, 108, 2048, 163 * _KIB, 164 * _KIB, 40 * _MIB, 80 * _GIB),
    GpuProperties("NVIDIA RTX 3090", 8, 6, 82, 1536, 99 * _KIB, 100 * _KIB, 6 * _MIB, 24 * _GIB),
    GpuProperties("NVIDIA RTX 4090", 8, 9, 128, 1536, 99 * _KIB, 100 * _KIB, 72 * _MIB, 24 * _GIB),
    GpuProperties("NVIDIA H100", 9, 0, 132, 2048, 227 * _KIB, 228 * _KIB, 50 * _MIB, 80 * _GIB),
    GpuProperties("NVIDIA B200", 10, 0, 148, 2048, 227 * _KIB, 228 * _KIB, 126 * _MIB, 180 * _GIB),
    GpuProperties("NVIDIA RTX 5090", 12, 0, 170, 1536, 99 * _KIB, 100 * _KIB, 96 * _MIB, 32 * _GIB),
)

#: By architecture, as "sm_90".
GPUS = {f"sm_{gpu.capability}": gpu for gpu in _GPUS}


def properties_of(architecture: str) -> GpuProperties:
    """Those of `architecture`; UnsupportedArchitecture if the table lacks it."""
    if gpu := GPUS.get(architecture):
        return gpu
    raise UnsupportedArchitecture(
        f"nothing is known of a GPU of {architecture}; without one of it at hand, kernels can be "
        f"compiled for {', '.join(GPUS)}. Name one of these first and {architecture} after it, or "
        "lower on such a GPU."
    )
