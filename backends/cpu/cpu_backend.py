"""The CPU backend's lowering half: which machine, which weights, how many threads."""

from __future__ import annotations

from typing import Any, final

from backends.aoti.aoti_backend import AotiBackend, BuildTarget
from backends.aoti.inductor import Target
from backends.aoti.payload import ImageInfo
from backends.aoti.toolchain import Machine
from backends.cpu import isa as instruction_sets
from backends.cpu.cpu_options import CpuOptions
from exir.backend.backend_details import BackendDetails
from exir.backend.compile_spec_schema import CompileSpec


@final
class CpuBackend(AotiBackend, BackendDetails):
    """Compiles partitions to x86-64 code that runs without libtorch."""

    @classmethod
    def get_device_name(cls) -> str:
        return "cpu"

    @classmethod
    def get_build_target(cls, compile_specs: list[CompileSpec]) -> BuildTarget:
        options = CpuOptions.from_compile_specs(compile_specs)
        isa = instruction_sets.level(options.isa)
        threads = options.num_threads or instruction_sets.physical_cores()
        packed = options.weights != "shared" and options.gemm != "library"
        return BuildTarget(
            code=Target("cpu", isa.vector_bits, threads, prefer_templates=packed),
            machine=Machine(
                march=(f"-march={isa.name}",),
                defines=(isa.define,),
                wide_vectors=isa.vector_bits == 512,
            ),
            info=ImageInfo(
                device="cpu",
                shims=(),
                shim_list_version=0,
                isa=isa.name,
                num_threads=threads,
                weights_layout="packed" if packed else "shared",
            ),
        )

    @classmethod
    def save_data_externally(cls, compile_specs: list[CompileSpec]) -> bool:
        return CpuOptions.from_compile_specs(compile_specs).save_data_externally

    @classmethod
    def get_aoti_compile_options(cls, compile_specs: list[CompileSpec]) -> dict[str, Any]:
        return {}
