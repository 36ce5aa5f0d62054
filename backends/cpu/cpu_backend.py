"""The CPU backend's lowering half: instruction sets, weight layout, threads."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

import torch
from torch.export import ExportedProgram

from pteron.backends.aoti.aoti_backend import AotiBackend, BuildTarget
from pteron.backends.aoti.inductor import Target
from pteron.backends.aoti.passes.fold_batch_norms import fold_batch_norms
from pteron.backends.aoti.passes.fold_constants import fold_constants
from pteron.backends.aoti.passes.quantized_gemm import pack_quantized_weights
from pteron.backends.aoti.payload import SharedObjectInfo
from pteron.backends.aoti.toolchain import Machine
from pteron.backends.cpu import isa as instruction_sets
from pteron.backends.cpu.cpu_options import CpuOptions
from pteron.backends.cpu.passes.bfloat16_products import bfloat16_products
from pteron.backends.cpu.passes.pack_convolutions import pack_convolutions
from pteron.backends.cpu.passes.patch_embedding_as_matmul import PatchEmbeddingAsMatmulPass
from pteron.exir.backend.backend_details import BackendDetails, PreprocessResult
from pteron.exir.backend.compile_spec_schema import CompileSpec


@final
class CpuBackend(AotiBackend[CpuOptions], BackendDetails):
    """Compiles partitions to x86-64 code that runs without libtorch."""

    @classmethod
    def get_device_name(cls) -> str:
        return "cpu"

    @classmethod
    def get_options(cls, compile_specs: Iterable[CompileSpec]) -> CpuOptions:
        return CpuOptions.from_compile_specs(compile_specs)

    @classmethod
    def get_build_target(cls, options: CpuOptions) -> BuildTarget:
        return cls.get_build_targets(options)[0]

    @classmethod
    def get_build_targets(cls, options: CpuOptions) -> list[BuildTarget]:
        levels = instruction_sets.levels(options.levels)
        return [_build_target(options, isa, levels[-1]) for isa in levels]

    @classmethod
    def get_load_options(
        cls, compile_specs: list[CompileSpec]
    ) -> Sequence[Mapping[str, bool | int | str]]:
        levels = instruction_sets.levels(cls.get_options(compile_specs).levels)
        features = instruction_sets.machine_features()
        return [{"isa": isa.name} for isa in levels if isa.features <= features][:-1]

    @classmethod
    def get_program_passes(cls, options: CpuOptions) -> list[Callable[[ExportedProgram], None]]:
        passes = super().get_program_passes(options)
        least = cls.get_build_targets(options)[0].code
        # Packed weights are a copy that methods do not share; their kernels need AVX2.
        if least.freeze and least.vector_bits > 0:
            passes += [fold_constants, fold_batch_norms, pack_convolutions]
            if least.templates:
                passes.append(pack_quantized_weights)
                if options.matmul_precision == "medium":
                    passes.append(bfloat16_products)
        return passes

    @classmethod
    def get_custom_passes(cls, options: CpuOptions) -> list[Callable[[torch.fx.GraphModule], Any]]:
        passes = super().get_custom_passes(options)
        code = cls.get_build_targets(options)[-1].code
        # Pays off only for a generated GEMM with packed weights.
        return [PatchEmbeddingAsMatmulPass(), *passes] if code.freeze and code.templates else passes

    @classmethod
    def precision_of_products(cls, compile_specs: list[CompileSpec]) -> torch.dtype | None:
        medium = cls.get_options(compile_specs).matmul_precision == "medium"
        return torch.bfloat16 if medium else None

    @classmethod
    def records_weights(cls, options: CpuOptions) -> bool:
        return options.updatable_weights

    @classmethod
    def keeps_results(cls, options: CpuOptions) -> bool:
        return not options.updatable_weights

    @classmethod
    def save_data_externally(cls, options: CpuOptions) -> bool:
        return options.save_data_externally

    @classmethod
    def compile_partitions(
        cls,
        edge_programs: dict[str, list[ExportedProgram]],
        options: dict[str, list[CpuOptions]],
    ) -> dict[str, list[PreprocessResult]]:
        """Resolves weights="auto" to "shared" if methods share tensors, and gemm="auto" to
        "library" for a partition that is one small product: then no kernel is compiled."""
        if share_weights(edge_programs.values()):
            options = {
                method: [_with_shared_weights(o) for o in options[method]] for method in options
            }
        options = {
            method: list(map(_with_called_product, options[method], programs))
            for method, programs in edge_programs.items()
        }
        return super().compile_partitions(edge_programs, options)


def _build_target(
    options: CpuOptions, isa: instruction_sets.Isa, best: instruction_sets.Isa
) -> BuildTarget:
    """The target for one level; `best` is the highest level in the file."""
    packed = options.weights != "shared"
    # Scalar templates are slower than the library.
    templates = options.gemm == "template" or (options.gemm == "auto" and isa.vector_bits > 0)
    return BuildTarget(
        code=Target(
            "cpu",
            isa.vector_bits,
            # All other counts give the same code, which queries the count at run time.
            num_threads=1 if options.num_threads == 1 else 2,
            freeze=packed,
            templates=templates,
            packed_for=best.vector_bits,
            operators=options.operators,
        ),
        machine=Machine(
            march=(f"-march={isa.name}", f"-D{isa.define}"),
            wide_vectors=isa.vector_bits == 512,
            symbols=options.symbols,
        ),
        info=SharedObjectInfo(
            device="cpu",
            isa=isa.name,
            num_threads=options.num_threads,
            weights_layout="packed" if packed else "shared",
        ),
    )


def share_weights(methods: Iterable[list[ExportedProgram]]) -> bool:
    """Whether two methods share a tensor."""
    seen: set[int] = set()
    for programs in methods:
        storages = {
            tensor.untyped_storage().data_ptr()
            for program in programs
            for tensor in (*program.state_dict.values(), *program.constants.values())
            if isinstance(tensor, torch.Tensor) and tensor.numel() > 1
        }
        if seen & storages:
            return True
        seen |= storages
    return False


def _with_shared_weights(options: CpuOptions) -> CpuOptions:
    if options.weights != "auto" or options.gemm == "template":
        return options
    return dataclasses.replace(options, weights="shared", matmul_precision="highest")


_ATEN = torch.ops.aten
#: Of each product the argument that is its left matrix.
_PRODUCTS = {
    _ATEN.mm.default: 0,
    _ATEN.bmm.default: 0,
    _ATEN.addmm.default: 1,
    _ATEN.baddbmm.default: 1,
}
#: A template takes seconds to compile; a call costs a fraction of a microsecond more than it.
_SMALL_PRODUCT = 4096


def _with_called_product(options: CpuOptions, program: ExportedProgram) -> CpuOptions:
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    others = [node for node in calls if not getattr(node.target, "is_view", False)]
    if options.gemm != "auto" or len(others) != 1 or others[0].target not in _PRODUCTS:
        return options
    left = others[0].args[_PRODUCTS[others[0].target]]
    sizes = (*others[0].meta["val"].shape, left.meta["val"].shape[-1])
    if not all(isinstance(n, int) for n in sizes) or math.prod(sizes) > _SMALL_PRODUCT:
        return options
    return dataclasses.replace(options, gemm="library", matmul_precision="highest")
