"""The CUDA backend's lowering half: which GPU, who multiplies matrices, what is tuned."""

from __future__ import annotations

from typing import Any, final

import torch
from torch.export import ExportedProgram

from backends.aoti.aoti_backend import AotiBackend, BuildTarget
from backends.aoti.inductor import Target
from backends.aoti.payload import ImageInfo
from backends.aoti.toolchain import Machine
from backends.cuda import toolkit
from backends.cuda.cuda_options import CudaOptions
from exir.backend.backend_details import BackendDetails, PreprocessResult
from exir.backend.compile_spec_schema import CompileSpec


class NoCudaDevice(RuntimeError):
    """Kernels are compiled and tuned on a GPU, and this machine has none."""


@final
class CudaBackend(AotiBackend, BackendDetails):
    """Compiles partitions to CUDA kernels, and a host part that runs them without libtorch."""

    @classmethod
    def get_device_name(cls) -> str:
        return "cuda"

    @classmethod
    def get_build_target(cls, compile_specs: list[CompileSpec]) -> BuildTarget:
        options = CudaOptions.from_compile_specs(compile_specs)
        return BuildTarget(
            code=Target("cuda", freeze=False),
            machine=Machine(march=(), defines=("USE_CUDA",), include_folders=_include_folders()),
            info=ImageInfo(
                device="cuda",
                shims=(),
                shim_list_version=0,
                cuda_archs=_architectures(options),
            ),
            # As other readers of AOTInductor's CUDA delegates expect the weights.
            own_blobs=False,
        )

    @classmethod
    def preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        if not torch.cuda.is_available():
            raise NoCudaDevice(
                "lowering for CUDA compiles and tunes kernels on a GPU, and torch finds none "
                "(torch.cuda.is_available() is False). Lower the model on a machine that has one."
            )
        toolkit.include_folders()  # says what is missing before anything is compiled
        return super().preprocess(edge_program, compile_specs)

    @classmethod
    def save_data_externally(cls, compile_specs: list[CompileSpec]) -> bool:
        return CudaOptions.from_compile_specs(compile_specs).save_data_externally

    @classmethod
    def get_aoti_compile_options(cls, compile_specs: list[CompileSpec]) -> dict[str, Any]:
        options = CudaOptions.from_compile_specs(compile_specs)
        entries: dict[str, Any] = {
            "max_autotune_gemm": options.gemm != "cublas",
            "max_autotune_gemm_backends": {
                "cublas": "ATEN",
                "triton": "TRITON",
                "best": "TRITON,ATEN",
            }[options.gemm],
            "max_autotune_conv_backends": "TRITON,ATEN" if options.gemm == "best" else "ATEN",
            "max_autotune_pointwise": options.autotune != "off",
            "emulate_precision_casts": options.emulate_precision_casts,
        }
        if options.autotune == "exhaustive":
            entries["max_autotune_gemm_search_space"] = "EXHAUSTIVE"
            entries["coordinate_descent_tuning"] = True
        return entries


def _include_folders() -> tuple[str, ...]:
    """None where there is no toolkit: partitioning needs none; preprocess says what is missing."""
    try:
        return toolkit.include_folders()
    except FileNotFoundError:
        return ()


def _architectures(options: CudaOptions) -> tuple[str, ...]:
    if not torch.cuda.is_available():
        return options.architectures
    major, minor = torch.cuda.get_device_capability()
    here = f"sm_{major}{minor}"
    others = sorted(set(options.architectures) - {here})
    if others:
        raise ValueError(
            f"architectures has {', '.join(others)}; kernels are compiled on the GPU of the "
            f"machine that lowers, which is {here}. Lower once on each kind of GPU."
        )
    return (here,)
