"""The CUDA backend's lowering half: architectures, GEMM implementation, tuning."""

import dataclasses
import functools
import importlib.metadata
import logging
import os
from collections.abc import Callable, Iterable
from typing import Any, final

import torch
from torch.export import ExportedProgram

from pteron.backends.aoti import inductor
from pteron.backends.aoti.aoti_backend import AotiBackend, BuildTarget
from pteron.backends.aoti.inductor import Target
from pteron.backends.aoti.passes.attention import AttentionPass
from pteron.backends.aoti.passes.fold_batch_norms import fold_batch_norms
from pteron.backends.aoti.passes.quantized_gemm import pack_for_tensor_cores
from pteron.backends.aoti.payload import SharedObjectInfo
from pteron.backends.aoti.toolchain import Machine
from pteron.backends.cuda import toolkit
from pteron.backends.cuda.autotune_record import AutotuneRecord, software_and_gpu
from pteron.backends.cuda.cuda_options import CudaOptions
from pteron.backends.cuda.cuda_passes import attention_pass, convolution_pass, cuda_passes
from pteron.exir._serialize.named_data_store import NamedDataStore
from pteron.exir.backend.backend_details import BackendDetails, PreprocessResult
from pteron.exir.backend.compile_spec_schema import CompileSpec

_LOG = logging.getLogger(__name__)


class NoCudaDevice(RuntimeError):
    """The options need a GPU, and this machine has none."""


@final
class CudaBackend(AotiBackend[CudaOptions], BackendDetails):
    """Compiles partitions to CUDA kernels, and host code that runs them without libtorch."""

    #: decisions/2026-11-23-products-of-one-row.md
    max_gemv_columns = 8192

    @classmethod
    def get_device_name(cls) -> str:
        return "cuda"

    @classmethod
    def get_options(cls, compile_specs: Iterable[CompileSpec]) -> CudaOptions:
        return CudaOptions.from_compile_specs(compile_specs)

    @classmethod
    def get_build_target(cls, options: CudaOptions) -> BuildTarget:
        first, *further = _architectures(options) or ("",)
        return BuildTarget(
            code=Target(
                "cuda",
                freeze=False,
                gpu=first if _needs_no_gpu(options) else "",
                architectures=tuple(further),
                allow_tf32=options.allow_tf32,
                operators=options.operators,
            ),
            machine=Machine(march=(), defines=("USE_CUDA",), include_folders=_include_folders()),
            info=SharedObjectInfo(
                device="cuda",
                cuda_archs=_architectures(options),
                weights_layout=options.weights,
            ),
            own_blobs=options.weights == "shared",
        )

    @classmethod
    def compile_partition(
        cls, edge_program: ExportedProgram, options: CudaOptions
    ) -> PreprocessResult:
        _require_gpu(options)
        toolkit.include_folders()  # reports what is missing before compiling
        return super().compile_partition(edge_program, options)

    @classmethod
    def compile_partitions(
        cls,
        edge_programs: dict[str, list[ExportedProgram]],
        options: dict[str, list[CudaOptions]],
    ) -> dict[str, list[PreprocessResult]]:
        """As all AOTI backends; stores the tuning record with the first partition."""
        all_options = [each for chosen in options.values() for each in chosen]
        has_gpu = bool(_here())
        if not has_gpu:
            _warn_unverified(all_options)
        if not has_gpu or not any(each.tunes for each in all_options):
            return super().compile_partitions(edge_programs, options)
        texts = dict.fromkeys(each.autotune_record for each in all_options if each.autotune_record)
        replayed = AutotuneRecord.merged(map(AutotuneRecord.from_json, texts))
        if texts:
            replayed.check_made_here()
        with inductor.tuning(replayed.files) as measured:
            results = super().compile_partitions(edge_programs, options)
        if texts and (missing := replayed.missing(measured)):
            _LOG.warning(
                "the record of tuning does not cover this program: %d of %d files of measurements "
                "are new, and other kernels may have been chosen: %s",
                len(missing),
                len(measured),
                ", ".join(missing),
            )
        record = AutotuneRecord(software_and_gpu(), measured)
        _attach(next(result for made in results.values() for result in made), record)
        return results

    @classmethod
    def keeps_results(cls, options: CudaOptions) -> bool:
        """If nothing is measured, weights stay on the host, and Triton's own assembler is used."""
        return _needs_no_gpu(options) and not any(x.startswith("TRITON_PTXAS") for x in os.environ)

    @classmethod
    def get_versions(cls) -> list[str]:
        return [f"triton {importlib.metadata.version('triton')}", toolkit.headers_digest()]

    @classmethod
    def save_data_externally(cls, options: CudaOptions) -> bool:
        return options.save_data_externally

    @classmethod
    def rounds_to_tf32(cls, compile_specs: list[CompileSpec]) -> bool:
        return cls.get_options(compile_specs).allow_tf32

    @classmethod
    def get_program_passes(cls, options: CudaOptions) -> list[Callable[[ExportedProgram], None]]:
        return [
            *super().get_program_passes(options),
            fold_batch_norms,
            convolution_pass(options),
            functools.partial(
                pack_for_tensor_cores,
                fuse=all(inductor.capability(each) >= 80 for each in _architectures(options)),
            ),
        ]

    @classmethod
    def get_custom_passes(cls, options: CudaOptions) -> list[Callable[[torch.fx.GraphModule], Any]]:
        return [*cuda_passes(), *super().get_custom_passes(options)]

    @classmethod
    def get_attention_pass(cls, options: CudaOptions) -> AttentionPass:
        return attention_pass(options)

    @classmethod
    def get_fallback_options(cls, options: CudaOptions) -> CudaOptions | None:
        if options.attention != "auto":
            return None
        return dataclasses.replace(options, attention="library")

    @classmethod
    def get_aoti_compile_options(cls, options: CudaOptions) -> dict[str, Any]:
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
            # Kernels that do not depend on each other are one: see the page on decoding steps.
            "combo_kernels": True,
            # torchao's quantize_ turns it on for the process, which doubles the time of lowering.
            "coordinate_descent_tuning": options.autotune == "exhaustive",
        }
        if options.autotune == "exhaustive":
            entries["max_autotune_gemm_search_space"] = "EXHAUSTIVE"
        return entries


def _include_folders() -> tuple[str, ...]:
    """None without a toolkit: partitioning needs none, and preprocess reports what is missing."""
    try:
        return toolkit.include_folders()
    except FileNotFoundError:
        return ()


def _needs_no_gpu(options: CudaOptions) -> bool:
    """Whether to use the table of GPU properties: if nothing is measured and the architecture is
    named, even if the machine has such a GPU, so that all machines produce the same program."""
    here, named = _here(), options.architectures
    if options.tunes or not named:
        return False
    return not here or (here in named and named[0] in inductor.GPUS)


def _architectures(options: CudaOptions) -> tuple[str, ...]:
    """Architectures of the shared object; the first one determines kernel configurations."""
    if _needs_no_gpu(options):
        first, *others = options.architectures
        return (first, *sorted(set(others) - {first}))
    here = _here()
    return (*((here,) if here else ()), *sorted(set(options.architectures) - {here}))


def _require_gpu(options: CudaOptions) -> None:
    """Raises NoCudaDevice, listing all reasons, unless there is a GPU or none is needed."""
    if _here():
        return
    problems = []
    if not options.architectures:
        problems.append(
            'name the GPU that the program is for: architectures=("sm_90",), in pteron.export and'
            ' build rules "cuda.architectures": "sm_90"'
        )
    if options.gemm != "cublas":
        problems.append(f'gemm={options.gemm!r} measures products: gemm="cublas" does not')
    if options.autotune != "off":
        problems.append(f'autotune={options.autotune!r} measures kernels: autotune="off" does not')
    if problems:
        raise NoCudaDevice(
            "torch finds no GPU here (torch.cuda.is_available() is False), and these CudaOptions "
            "need one:\n  "
            + "\n  ".join(problems)
            + "\nChange them, or lower the model on a machine that has a GPU."
        )


def _warn_unverified(options: Iterable[CudaOptions]) -> None:
    named = (_architectures(each) for each in options if _needs_no_gpu(each))
    architectures = sorted({name for names in named for name in names})
    if architectures:
        _LOG.warning(
            "lowering for %s without a GPU: to_executorch() cannot run the program here to check "
            "it. Run it once on such a GPU and compare its outputs with the model's.",
            ", ".join(architectures),
        )


def _here() -> str:
    """The architecture of this machine's GPU; empty without one."""
    with inductor.LOCK:  # torch reports the table's values while another thread generates code
        if not torch.cuda.is_available():
            return ""
        major, minor = torch.cuda.get_device_capability()
        return f"sm_{major}{minor}"


def _attach(result: PreprocessResult, record: AutotuneRecord) -> None:
    """Adds the record to the blobs of a partition."""
    store = NamedDataStore()
    store.add_named_data(record.key(), record.to_json().encode())
    added = store.get_named_data_store_output()
    data = result.data_store_output
    assert data is not None
    (entry,) = added.pte_data.values()
    data.pte_data[record.key()] = dataclasses.replace(entry, buffer_index=len(data.buffers))
    data.buffers.extend(added.buffers)
