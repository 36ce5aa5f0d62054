"""The base class of the AOTInductor backends.

`AotiBackend` is a mixin: it is never registered itself. A device's backend derives from it and from
`BackendDetails`::

    @final
    class CpuBackend(AotiBackend[CpuOptions], BackendDetails):
        @classmethod
        def get_device_name(cls) -> str:
            return "cpu"
        ...

`preprocess` is common; a device overrides the class methods of `DeviceBackend`. Compile specs are
parsed once to options, which all other methods get.

Experimental: class methods and their signatures may change with any release.
Backends outside this package get an `ExperimentalWarning`.
"""

import contextlib
import dataclasses
import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

import torch
from torch.export import ExportedProgram

from pteron.backends.aoti import inductor, payload, recipe_replay, toolchain, weight_recipe, workers
from pteron.backends.aoti.contract import contract_of
from pteron.backends.aoti.device_backend import BuildTarget as BuildTarget
from pteron.backends.aoti.device_backend import DeviceBackend, OptionsT
from pteron.backends.aoti.lowering_cache import KeptResults, key_of, logged
from pteron.backends.aoti.lowering_errors import (
    InductorFailedError,
    check_functions,
    inductor_error,
    raise_together,
)
from pteron.backends.aoti.ops import shim_list
from pteron.backends.aoti.passes.attention import has_attention
from pteron.backends.aoti.passes.fuse_convolutions import has_fused_convolutions
from pteron.backends.aoti.passes.remove_metadata_asserts import RemoveMetadataAssertsPass
from pteron.backends.aoti.passes.reshape_instead_of_view import ReshapeInsteadOfViewPass
from pteron.exir._serialize.named_data_store import NamedDataStoreOutput
from pteron.exir.backend.backend_details import PreprocessResult
from pteron.exir.backend.compile_spec_schema import METHOD_NAME_KEY, CompileSpec
from pteron.exir.backend.partition_boundary import BOUNDARIES
from pteron.exir.graph.exported_program import copy_program
from pteron.exir.operators.decompositions import run_decompositions
from pteron.exir.undelegated import UnsupportedOperatorsError

_LOG = logging.getLogger(__name__)

_aten = torch.ops.aten
_SCANS = {_aten.cumsum.default, _aten.cumprod.default, _aten.logcumsumexp.default}
_UNSPLIT = 8192
"""Of how many elements Inductor splits no scan."""


class ExperimentalWarning(FutureWarning):
    """An API is used that may change with any release."""


class AotiBackend(DeviceBackend[OptionsT]):
    """Abstract and experimental; see the module's docstring."""

    class COMPILE_SPEC_KEYS(Enum):
        """Keys of compile specs that every AOTI backend accepts, in addition to its options."""

        METHOD_NAME = METHOD_NAME_KEY

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.__module__.startswith("pteron."):
            warnings.warn(
                f"{cls.__name__} derives from AotiBackend, which is experimental: its class "
                "methods may change with any release of pteron",
                ExperimentalWarning,
                stacklevel=3,
            )

    @classmethod
    def generate_method_name_compile_spec(cls, method_name: str) -> CompileSpec:
        """The spec that says which method a partition belongs to.

        Optional: lowering adds it to each partition without one.
        """
        return CompileSpec(METHOD_NAME_KEY, method_name.encode())

    @classmethod
    def method_name_from_compile_specs(cls, compile_specs: Iterable[CompileSpec]) -> str:
        """The method's name in `compile_specs`; RuntimeError if missing."""
        found = {spec.key: spec.value for spec in compile_specs}
        if METHOD_NAME_KEY in found:
            return found[METHOD_NAME_KEY].decode()
        raise RuntimeError(
            f"no compile spec has the method's name: found the keys {sorted(found)}, expected "
            f"{METHOD_NAME_KEY!r} among them; lowering with a partitioner adds it, and elsewhere "
            f"{cls.__name__}.generate_method_name_compile_spec(name) makes it"
        )

    @classmethod
    def preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """Compiles one partition to shared objects, constants and metadata."""
        return cls.compile_partition(edge_program, cls.get_options(compile_specs))

    @classmethod
    def preprocess_multimethod(
        cls,
        edge_programs: dict[str, list[ExportedProgram]],
        compile_specs: dict[str, list[list[CompileSpec]]],
    ) -> dict[str, list[PreprocessResult]]:
        """Compiles all partitions of all methods."""
        options = {
            method: [cls.get_options(specs) for specs in lists]
            for method, lists in compile_specs.items()
        }
        return cls.compile_partitions(edge_programs, options)

    @classmethod
    def compile_partition(
        cls, edge_program: ExportedProgram, options: OptionsT
    ) -> PreprocessResult:
        """`preprocess` after parsing the options."""
        inductor.release()  # UnsupportedTorch comes before any work
        targets = cls.get_build_targets(options)
        key = cls._key(edge_program, options, targets) if cls.keeps_results(options) else None
        kept = KeptResults(toolchain.shared_cache(), key, edge_program)
        own_blobs = targets[0].own_blobs
        boundaries = list(edge_program.graph_module.meta.get(BOUNDARIES, ()))
        digests: payload.Digests = {}
        with kept.being_made():
            if result := kept.find(own_blobs, boundaries):
                return result
            with logged("pteron") as messages:
                results, constants, recorder = cls._compile(edge_program, options, targets, digests)
            result = payload.join(results)
            if recorder and key:
                with contextlib.suppress(recipe_replay.RecipeError):
                    recipe = recorder.recipe([tensor for each in constants for tensor in each])
                    kept.put(result, recipe, constants, own_blobs, boundaries, messages, digests)
        return result

    @classmethod
    def _key(
        cls, program: ExportedProgram, options: OptionsT, targets: Sequence[BuildTarget]
    ) -> str | None:
        """The key of a partition's result in the cache."""
        device = cls.get_device_name()
        return key_of(
            program,
            [
                f"{cls.__module__}.{cls.__qualname__} {options!r} {targets!r}",
                repr(sorted(cls.get_aoti_compile_options(options).items())),
                repr(sorted(cls.get_supported_fallback_kernels().items())),
                *(toolchain.build_step(x.machine, device).settings() for x in targets),
                *cls.get_versions(),
            ],
        )

    @classmethod
    def _compile(
        cls,
        edge_program: ExportedProgram,
        options: OptionsT,
        targets: Sequence[BuildTarget],
        digests: payload.Digests,
    ) -> tuple[list[PreprocessResult], list[list[torch.Tensor]], weight_recipe.Recorder | None]:
        """The payload of each variant, its constants, and how they were made."""
        device = cls.get_device_name()
        toolchain.build_step(targets[0].machine, device)  # or ToolchainError, before Inductor runs
        boundaries = edge_program.graph_module.meta.get(BOUNDARIES, ())
        recorder = None
        if cls.records_weights(options) or cls.keeps_results(options):
            recorder = weight_recipe.Recorder(
                edge_program, for_reuse=not cls.records_weights(options)
            )
        with inductor.LOCK, cls.get_extra_aoti_compile_context_manager():
            with recorder or contextlib.nullcontext():
                program, codes = cls._prepare_and_generate(edge_program, targets, options)
            contract = contract_of(program)
        called = {name for code in codes for name in inductor.operator_functions(code.model)}
        proxied = {name for code in codes for name in code.proxied}
        own = inductor.callers_functions(device, targets[0].code.operators).keys()
        check_functions(cls.__name__, device, program, called, proxied, own)
        results, tensors = [], []
        for code, target in zip(codes, targets, strict=True):
            shared_object = toolchain.build(
                code,
                target.machine,
                device=device,
                embedded=code.embedded,
            )
            shared_object = cls.codesign_so(shared_object, options)
            imported = toolchain.imported_symbols(shared_object, target.machine)
            check_functions(cls.__name__, device, program, imported, own=own)
            constants = code.constants if target.own_blobs else code.all_constants
            tensors.append([constant.tensor for constant in constants])
            recipe = b""
            if recorder and cls.records_weights(options):
                recipe = recorder.recipe(tensors[-1])
            result = payload.build(
                shared_object,
                target.info,
                contract,
                constants,
                shims=imported,
                shim_list_version=shim_list.load(device).version_for(
                    name for name in imported if name not in own
                ),
                op_counts=payload.count_operators(program),
                kernels=code.events,
                boundaries=boundaries,
                own_blobs=target.own_blobs,
                weights_tag=f"aoti_{target.info.device}_blob"
                if cls.save_data_externally(options)
                else None,
                recipe=recipe,
                digests=digests,
            )
            results.append(result)
        return results, tensors, recorder

    @classmethod
    def compile_partitions(
        cls,
        edge_programs: dict[str, list[ExportedProgram]],
        options: dict[str, list[OptionsT]],
    ) -> dict[str, list[PreprocessResult]]:
        """Compiles all partitions: code of one is generated while that of another is compiled."""
        inductor.release()  # or UnsupportedTorch, before work is done
        with (
            inductor.compile_workers_started_by(workers.ProcessOfLibrary),
            workers.Workers(2) as pool,
        ):
            jobs = {
                method: [
                    pool.submit(cls._compile_of, method, program, chosen)
                    for program, chosen in zip(programs, options[method], strict=True)
                ]
                for method, programs in edge_programs.items()
            }
        raise_together([job for jobs_of_method in jobs.values() for job in jobs_of_method])
        return {method: [job.result() for job in done] for method, done in jobs.items()}

    @classmethod
    def _compile_of(
        cls, method: str, program: ExportedProgram, options: OptionsT
    ) -> PreprocessResult:
        try:
            return cls.compile_partition(program, options)
        except (InductorFailedError, UnsupportedOperatorsError) as error:
            raise type(error)(f"in method {method!r}, {error}") from error.__cause__

    @classmethod
    def get_platform(cls, compile_specs: list[CompileSpec]) -> str:
        """The platform of the linked code."""
        target = cls.get_build_target(cls.get_options(compile_specs))
        return target.info.platform or toolchain.HOST_PLATFORM

    @classmethod
    def weights_of(
        cls, processed_bytes: bytes, named_data: Mapping[str, memoryview]
    ) -> Mapping[str, tuple[torch.dtype, tuple[int, ...]]] | None:
        return payload.weights_of(processed_bytes, named_data)

    @classmethod
    def with_weights(
        cls,
        processed_bytes: bytes,
        named_data: Mapping[str, memoryview],
        weights: Mapping[str, torch.Tensor],
    ) -> PreprocessResult:
        return payload.with_weights(processed_bytes, named_data, weights)

    @classmethod
    def describe(
        cls, processed_bytes: bytes, data_store_output: NamedDataStoreOutput | None
    ) -> Mapping[str, str]:
        """Details of a partition for `explain()`: target, torch, sizes, operators called."""
        return payload.describe(processed_bytes, data_store_output)

    @classmethod
    def _prepare(cls, program: ExportedProgram, options: OptionsT) -> ExportedProgram:
        """The program for compilation: on the device, decomposed, with all passes applied."""
        device = cls.get_device_name()
        is_absent = bool(cls.get_build_target(options).code.gpu)
        # With its index, as in the program's own assertions.
        place = device if device == "cpu" else f"{device}:0"
        with inductor.fake_tensors_of_any_device() if is_absent else contextlib.nullcontext():
            if (here := "cpu" if is_absent else place) != "cpu" or _is_elsewhere(program):
                from torch.export.passes import move_to_device_pass

                program = move_to_device_pass(program, here)
            if table := cls.get_decomposition_table():
                program = run_decompositions(program, dict(table))
            RemoveMetadataAssertsPass()(program.graph_module)
            for change in cls.get_program_passes(options):
                change(program)
            if is_absent:
                program = inductor.move_to_absent_gpu(program, place)
            for apply in cls.get_custom_passes(options):
                apply(program.graph_module)
            if has_attention(program.graph_module) or has_fused_convolutions(program.graph_module):
                # Their output strides depend on the implementation, not on tracing.
                ReshapeInsteadOfViewPass()(program.graph_module)
            return program

    @classmethod
    def _prepare_and_generate(
        cls, program: ExportedProgram, targets: Sequence[BuildTarget], options: OptionsT
    ) -> tuple[ExportedProgram, list[inductor.GeneratedCode]]:
        """The compiled program, and its sources per target."""
        fallback = has_attention(program.graph_module) and cls.get_fallback_options(options)
        if not fallback:
            program = cls._prepare(program, options)
            return program, cls._generate(program, targets, options)
        prepared = cls._prepare(copy_program(program), options)
        try:
            return prepared, cls._generate(prepared, targets, options)
        except InductorFailedError as error:
            _LOG.warning(
                "%s; using another implementation of attention, which may be slower",
                str(error).partition("\n")[0],
            )
        program = cls._prepare(program, fallback)
        return program, cls._generate(program, targets, fallback)

    @classmethod
    def _generate(
        cls, program: ExportedProgram, targets: Sequence[BuildTarget], options: OptionsT
    ) -> list[inductor.GeneratedCode]:
        """Sources with the preferred options or, if Inductor fails, with fallback options."""
        entries = cls.get_aoti_compile_options(options)
        if entries.get("combo_kernels") and (
            # The grid of such a kernel with dynamic sizes does not compile in torch 2.11.
            program.range_constraints or _has_long_scan(program)
        ):
            entries = {**entries, "combo_kernels": False}

        def compile_each(index: int, code: inductor.GeneratedCode) -> None:
            _compile_early(targets[index].machine, cls.get_device_name(), code)

        tuned = [target.code for target in targets]
        attempts = [("", tuned, entries)]
        if entries.get("combo_kernels"):
            # Torch 2.11 generates no such kernel of which a part is a sort.
            entries = {**entries, "combo_kernels": False}
            attempts.append(("more kernels", tuned, entries))
        attempts.append(("aten.view as aten.reshape", tuned, entries))
        if tuned[0].freeze:
            plain = [dataclasses.replace(target, freeze=False) for target in tuned]
            attempts.append(("aten.view as aten.reshape and plain options", plain, entries))
        failures: list[Exception] = []
        for change, code_targets, entries in attempts:
            if "aten.reshape" in change:
                ReshapeInsteadOfViewPass()(program.graph_module)
            try:
                codes = inductor.generate_variants(program, code_targets, entries, compile_each)
            except (
                inductor.UnsupportedTorch,
                inductor.UnsupportedArchitecture,
                inductor.TritonMissing,
                inductor.MutatedBuffers,
            ):
                raise
            except Exception as error:
                failures.append(error)
                continue
            if failures:
                _LOG.warning(
                    "Inductor failed at first (%s: %s); this partition is lowered with %s, which "
                    "may be slower",
                    type(failures[0]).__name__,
                    str(failures[0]).strip().partition("\n")[0],
                    change,
                )
            return codes
        raise inductor_error(cls.__name__, program, failures[0]) from failures[0]


COMPILE_SPEC_KEYS = AotiBackend.COMPILE_SPEC_KEYS


def _is_elsewhere(program: ExportedProgram) -> bool:
    """Whether a model was exported on a device other than the CPU."""
    values = [node.meta.get("val") for node in program.graph.nodes]
    return any(isinstance(value, torch.Tensor) and value.device.type != "cpu" for value in values)


def _has_long_scan(program: ExportedProgram) -> bool:
    """Whether Inductor may split a scan over thread blocks, which it does not in combo kernels."""
    return any(
        node.target in _SCANS
        and max(node.all_input_nodes[0].meta["val"].shape, default=0) > _UNSPLIT
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
    )


def _compile_early(machine: toolchain.Machine, device: str, code: inductor.GeneratedCode) -> None:
    """Compiles `code` in parallel with Inductor; a failure is reported by the build."""

    def prepare() -> None:
        with contextlib.suppress(Exception):
            toolchain.build_step(machine, device).compile_all(code)

    workers.start(prepare)
