"""The public API: lowers exported programs to a program file.

edge = to_edge_transform_and_lower(
    {"prefill": ep1, "decode": ep2}, partitioner=[CpuPartitioner()]
)
program = edge.to_executorch()
program.save("model.pte")
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from pteron.exir._serialize import schema
from pteron.exir._serialize.container import Chunks
from pteron.exir._serialize.program_file import serialize_program
from pteron.exir._serialize.tensor_data_file import serialize_tensor_data
from pteron.exir.arguments import (
    DEFAULT_METHOD,
    Programs,
    check_constant_methods,
    check_partitioners,
    methods_of,
    per_method,
)
from pteron.exir.backend.backend_api import MethodProgramsPartitionerSpec, to_backend
from pteron.exir.backend.partitioner import Partitioner
from pteron.exir.config import EdgeCompileConfig, ExecutorchBackendConfig
from pteron.exir.emit.emit_options import EmitOptions
from pteron.exir.emit.emitter import Emitted, emit_program
from pteron.exir.explain import ProgramReport, explain
from pteron.exir.export_warnings import (
    check_shared_state,
    warn_of_joined_inputs,
    warn_of_platforms,
    warn_of_training,
)
from pteron.exir.garbage_collection import collected_rarely
from pteron.exir.graph.empty_reductions import require_elements
from pteron.exir.graph.export_guards import guards_of
from pteron.exir.graph.input_checks import check_inputs
from pteron.exir.graph.shape_bounds import check_dynamic_sizes, check_input_bounds
from pteron.exir.graph.traced_metadata import unguarded_metadata
from pteron.exir.operators.complex_numbers import decompose_complex_tensors
from pteron.exir.operators.decompositions import (
    decompose,
    decompose_nodes,
    decomposition_table,
    functionalize,
    join_aliases,
)
from pteron.exir.operators.flex_attention import decompose_flex_attention
from pteron.exir.operators.quantized_matmul import use_int_mm
from pteron.exir.operators.random_values import without_generators
from pteron.exir.operators.written_parameters import written_parameters_as_buffers
from pteron.exir.passes.checkable_asserts import CheckableAsserts
from pteron.exir.passes.pass_base import Pass
from pteron.exir.passes.resolve_mutations import ResolveMutations
from pteron.exir.passes.run import run_passes
from pteron.exir.undelegated import lower_leftovers
from pteron.exir.verification.execution import Written
from pteron.exir.verification.reference import Reference
from pteron.exir.verification.verify import MethodVerification, verify

Passes: TypeAlias = Sequence[Pass] | Mapping[str, Sequence[Pass]]
Partitioners: TypeAlias = (
    Partitioner | Sequence[Partitioner] | Mapping[str, Partitioner | Sequence[Partitioner]]
)


@unguarded_metadata()
def to_edge(
    programs: Programs,
    constant_methods: Mapping[str, Any] | None = None,
    compile_config: EdgeCompileConfig | None = None,
) -> EdgeProgramManager:
    """Programs in functional form over core ATen operators, one per method.

    Args:
      programs: one program, which becomes method `forward`, or several by method name.
      constant_methods: values that methods of these names return.
      compile_config: options.

    Raises:
      ValueError: an input has a size without an upper bound.
    """
    return _to_edge(programs, constant_methods, compile_config or EdgeCompileConfig(), {})


def _to_edge(
    programs: Programs,
    constant_methods: Mapping[str, Any] | None,
    config: EdgeCompileConfig,
    partitioners: Mapping[str, Sequence[Partitioner]],
) -> EdgeProgramManager:
    methods = methods_of(programs)
    edge, references = {}, {}
    functional_programs = {}
    for name, program in methods.items():
        check_input_bounds(program, name)
        guards_of(program)
        warn_of_training(program, name)
        warn_of_joined_inputs(program, name)
        program = methods[name] = written_parameters_as_buffers(
            join_aliases(use_int_mm(decompose_flex_attention(program)))
        )
        functional_programs[name] = require_elements(functionalize(program))
    check_shared_state(functional_programs)
    for name, program in methods.items():
        functional = functional_programs[name]
        references[name] = Reference(program, functional)
        edge[name] = check_inputs(
            _decompose(functional, config.preserve_ops, partitioners.get(name, ()))
        )
    constants = check_constant_methods(constant_methods, methods)
    return EdgeProgramManager(edge, constants, references)


def _decompose(
    program: ExportedProgram,
    preserve: Sequence[OpOverload],
    partitioners: Sequence[Partitioner],
) -> ExportedProgram:
    """Decomposes all operators except those to keep, everywhere or in some calls."""
    everywhere = set(preserve)
    filters: list[tuple[set[OpOverload], Callable[[Node], bool]]] = []
    for partitioner in partitioners:
        ops, wants = partitioner.ops_to_not_decompose(program)
        # A list of all called operators includes size arithmetic, which is never decomposed.
        listed = {op for op in ops if isinstance(op, OpOverload)}
        if wants is None:
            everywhere.update(listed)
        else:
            filters.append((listed, wants))
    kept = everywhere.union(*(ops for ops, _ in filters))
    program = without_generators(decompose(program, kept))
    if not filters:
        return decompose_complex_tensors(program)

    def unwanted(node: Node) -> bool:
        return node.target not in everywhere and not any(
            node.target in ops and wants(node) for ops, wants in filters
        )

    program = decompose_nodes(program, unwanted, decomposition_table())
    return decompose_complex_tensors(program)


@collected_rarely()
@unguarded_metadata()
def to_edge_transform_and_lower(
    programs: Programs,
    transform_passes: Passes | None = None,
    partitioner: Partitioners | None = None,
    constant_methods: Mapping[str, Any] | None = None,
    compile_config: EdgeCompileConfig | None = None,
) -> EdgeProgramManager:
    """Decomposes programs, runs passes and lowers what partitioners take.

    Operators that a partitioner wants to keep are not decomposed. Operators that no partitioner
    takes are compiled for the CPU by `to_executorch()`, unless `to_backend` takes them first.

    Args:
      programs: one program, which becomes method `forward`, or several by method name.
      transform_passes: run over each method's graph before partitioning; optionally by method name.
      partitioner: partitioners in order of priority, each for the remaining nodes; optionally by
        method name.
      constant_methods: values that methods of these names return.
      compile_config: options.

    Raises:
      ValueError: an input has a size without an upper bound, or a partitioner's tags are wrong.
    """
    methods = methods_of(programs)
    partitioners = check_partitioners(per_method(partitioner, methods, "partitioner"))
    passes = per_method(transform_passes, methods, "transform_passes")
    manager = _to_edge(
        methods, constant_methods, compile_config or EdgeCompileConfig(), partitioners
    )
    manager = manager.transform(passes)
    for position in range(max(len(chosen) for chosen in partitioners.values())):
        manager = manager.to_backend(
            {m: chosen[position] for m, chosen in partitioners.items() if position < len(chosen)}
        )
    return manager


class _Methods:
    """Programs of several methods, and methods that return constants."""

    def __init__(
        self, programs: Programs, constant_methods: Mapping[str, Any] | None = None
    ) -> None:
        self._programs = methods_of(programs)
        self._constant_methods = dict(constant_methods or {})

    @property
    def methods(self) -> set[str]:
        """Names of the methods with a program."""
        return set(self._programs)

    @property
    def config_methods(self) -> set[str]:
        """Names of the methods that return constants."""
        return set(self._constant_methods)

    def exported_program(self, method_name: str = DEFAULT_METHOD) -> ExportedProgram:
        """The program of a method, with its delegate calls. KeyError lists the methods."""
        if method_name in self._programs:
            return self._programs[method_name]
        raise KeyError(
            f"there is no method {method_name!r}; the methods are {sorted(self._programs)}"
        )


class EdgeProgramManager(_Methods):
    """Programs of several methods, to be written to one file. Methods return new managers."""

    def __init__(
        self,
        edge_programs: Programs,
        constant_methods: Mapping[str, Any] | None = None,
        references: Mapping[str, Reference] | None = None,
    ) -> None:
        super().__init__(edge_programs, constant_methods)
        self._references = dict(references or {})

    def _with(self, programs: Mapping[str, ExportedProgram]) -> EdgeProgramManager:
        return EdgeProgramManager(programs, self._constant_methods, self._references)

    def transform(
        self, passes: Passes, compile_config: EdgeCompileConfig | None = None
    ) -> EdgeProgramManager:
        """Runs passes over each method's graph; optionally by method name."""
        chosen = per_method(passes, self._programs, "passes")
        return self._with(
            {name: run_passes(program, chosen[name]) for name, program in self._programs.items()}
        )

    @unguarded_metadata()
    def to_backend(
        self,
        partitioner: Partitioner | Mapping[str, Partitioner] | MethodProgramsPartitionerSpec,
    ) -> EdgeProgramManager:
        """Lowers what a partitioner takes, in all methods or by method name."""
        if isinstance(partitioner, MethodProgramsPartitionerSpec):
            spec = partitioner
        else:
            chosen = per_method(partitioner, self._programs, "partitioner")
            spec = MethodProgramsPartitionerSpec(
                self._programs, {method: c[0] for method, c in chosen.items() if c}
            )
        return self._with({**self._programs, **to_backend(spec)})

    def explain(self) -> ProgramReport:
        """A report on each method; `print` it for a table."""
        return explain(self._programs)

    @collected_rarely()
    @unguarded_metadata()
    def to_executorch(
        self, config: ExecutorchBackendConfig | None = None
    ) -> ExecutorchProgramManager:
        """Compiles remaining operators, plans memory and emits instructions.

        By default each method and its exported program then run on the example inputs, and on
        others derived from them (other sizes, strides, and values such as NaN), and their outputs
        are compared (`pteron.exir.verification`); `explain()` of the result has the outcome.

        The result refers to the model's weights until it is written: do not modify them before.

        Raises:
          UnsupportedOperatorsError: no backend can compile some operators; all are listed.
          ValueError: a size has no upper bound, or methods disagree about state of one name.
          VerificationError: the outputs of the lowered and the exported program differ.
        """
        config = config or ExecutorchBackendConfig()
        passes: list[Pass] = [CheckableAsserts(), *config.passes]
        edge = lower_leftovers(
            {name: run_passes(program, passes) for name, program in self._programs.items()}
        )
        for name, reference in self._references.items():
            check_dynamic_sizes(reference.program, name)
        warn_of_platforms(edge)
        programs = {name: ResolveMutations()(program) for name, program in edge.items()}
        emitted = ExecutorchProgramManager(programs, self._constant_methods, config)
        if config.verify:
            emitted._verify(self._references, edge, full=config.verify != "example")
        return emitted


class ExecutorchProgramManager(_Methods):
    """An emitted program, ready to be written."""

    def __init__(
        self,
        programs: Mapping[str, ExportedProgram],
        constant_methods: Mapping[str, Any] | None = None,
        config: ExecutorchBackendConfig | None = None,
    ) -> None:
        super().__init__(programs, constant_methods)
        self._config = config or ExecutorchBackendConfig()
        self._emitted: Emitted = emit_program(
            self._programs,
            self._constant_methods,
            EmitOptions(
                memory=self._config.memory_options(list(self._programs)),
                stacktraces=self._config.emit_stacktrace,
                graph=self._config.emit_graph,
                delegate_segments=self._config.extract_delegate_segments,
                external_constants=self._config.external_tag,
                inputs_on_device=self._config.by_method(
                    self._config.skip_h2d_for_method_inputs, list(self._programs)
                ),
                outputs_on_device=self._config.by_method(
                    self._config.skip_d2h_for_method_outputs, list(self._programs)
                ),
            ),
        )

        self._verifications: dict[str, MethodVerification] = {}

    def _verify(
        self,
        references: Mapping[str, Reference],
        edge_programs: Mapping[str, ExportedProgram],
        *,
        full: bool,
    ) -> None:
        def write(program: ExportedProgram) -> Written:
            config = ExecutorchBackendConfig(verify=False, emit_graph=False)
            return EdgeProgramManager(program).to_executorch(config)._written

        self._verifications = verify(self._written, references, edge_programs, write, full=full)

    @property
    def _written(self) -> Written:
        return Written(self.executorch_program, self._chunks, self._tensor_data)

    def explain(self) -> ProgramReport:
        """A report on each method and the files; `print` it for a table."""
        report = explain(self._programs)
        return replace(
            report,
            methods=[
                replace(
                    method, verification=str(self._verifications.get(method.name, "turned off"))
                )
                for method in report.methods
            ],
            file_nbytes=self._chunks.nbytes,
            external_nbytes={tag: chunks.nbytes for tag, chunks in self._tensor_data.items()},
        )

    @property
    def executorch_program(self) -> schema.Program:
        """The emitted tables."""
        return self._emitted.data.program

    @cached_property
    def _chunks(self) -> Chunks:
        return serialize_program(
            self._emitted.data,
            segment_alignment=self._config.segment_alignment,
            constant_alignment=self._config.constant_tensor_alignment,
        )

    @cached_property
    def _tensor_data(self) -> dict[str, Chunks]:
        output = self._emitted.named_data.get_named_data_store_output()
        return {
            tag: serialize_tensor_data(
                output, tag, segment_alignment=self._config.segment_alignment
            )
            for tag in sorted(output.external_data)
        }

    @property
    def buffer(self) -> bytes:
        """The program file as one object. For large programs prefer `save`, which does not copy."""
        return self._chunks.tobytes()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program file atomically. Raises OSError on failure.

        `write_tensor_data_to_file` writes its data files.
        """
        if Path(path).suffix != ".pte":
            raise ValueError(f"a program file's name ends in .pte; {os.fspath(path)!r} does not")
        self._chunks.save(path)

    def write_to_file(self, open_file: BinaryIO) -> None:
        """Writes the program file to an open binary file."""
        self._chunks.write_to(open_file)

    def write_tensor_data_to_file(self, outdir: str | os.PathLike[str]) -> None:
        """Writes each external tag to `<outdir>/<tag>.ptd`. Does nothing without external tags."""
        for tag, chunks in self._tensor_data.items():
            chunks.save(Path(outdir) / f"{tag}.ptd")
