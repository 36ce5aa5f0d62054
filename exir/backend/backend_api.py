"""Lowers programs with partitioners.

to_backend("MyBackend", exported_program, specs)   # a whole program -> LoweredBackendModule
to_backend(exported_program, partitioner)          # the partitioner's nodes -> ExportedProgram
to_backend(MethodProgramsPartitionerSpec(...))     # several methods at once -> dict of them
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

from torch.export import ExportedProgram

from pteron.exir.backend.backend_details import PreprocessResult, find_backend
from pteron.exir.backend.compile_spec_schema import METHOD_NAME_KEY, CompileSpec
from pteron.exir.backend.lowering import Extracted, backend_program, extract, insert_delegates
from pteron.exir.backend.partition_boundary import boundaries_of_nodes
from pteron.exir.backend.partitioner import (
    DELEGATION_TAG,
    LEFT_OUT_REASON,
    DelegationSpec,
    Partitioner,
)
from pteron.exir.backend.partitions import Partition, Step, plan_partitions
from pteron.exir.backend.utils import find_difference
from pteron.exir.graph import kernels
from pteron.exir.graph.exported_program import copy_program, flat_program
from pteron.exir.graph.lowered_backend_module import CallTree, LoweredBackendModule
from pteron.exir.passes.run import run_passes


@dataclass(frozen=True)
class MethodProgramsPartitionerSpec:
    """Several methods and the partitioner of each.

    Attributes:
      method_to_edge_program: programs by method name.
      method_to_partitioner: partitioners by method name; a method without one is unchanged.
    """

    method_to_edge_program: Mapping[str, ExportedProgram]
    method_to_partitioner: Mapping[str, Partitioner]


@dataclass
class _Plan:
    """The partitions to lower in one method."""

    program: ExportedProgram
    steps: list[Step]
    specs: dict[str, DelegationSpec]
    extracted: dict[str, Extracted]


@singledispatch
def to_backend(*args: Any) -> Any:
    """Lowers a program, or the parts of it that a partitioner takes. See the module's docstring."""
    raise TypeError(
        f"to_backend takes (backend id, ExportedProgram, specs), (ExportedProgram, Partitioner) or"
        f" a MethodProgramsPartitionerSpec, not {', '.join(type(arg).__name__ for arg in args)}"
    )


@to_backend.register
def _lower_program(
    backend_id: str, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
) -> LoweredBackendModule:
    backend = find_backend(backend_id)
    changed = [spec.target for spec in edge_program.graph_signature.output_specs if spec.target]
    if changed:
        raise ValueError(
            f"the program changes {', '.join(changed)}. State belongs to the program around a"
            f" delegate: lower it with a partitioner (to_edge_transform_and_lower) instead."
        )
    in_spec, out_spec = edge_program.call_spec.in_spec, edge_program.call_spec.out_spec
    assert in_spec is not None and out_spec is not None
    flat = flat_program(edge_program)
    result = backend.preprocess(copy_program(flat), list(compile_specs))
    spec = DelegationSpec(backend_id, compile_specs)
    return _lowered_module(flat, spec, result, tree=CallTree(in_spec, out_spec))


@to_backend.register
def _lower_partitions(edge_program: ExportedProgram, partitioner: Partitioner) -> ExportedProgram:
    spec = MethodProgramsPartitionerSpec({"forward": edge_program}, {"forward": partitioner})
    return to_backend(spec)["forward"]


@to_backend.register
def _lower_methods(spec: MethodProgramsPartitionerSpec) -> dict[str, ExportedProgram]:
    plans = {
        method: _plan(method, program, spec.method_to_partitioner[method])
        for method, program in spec.method_to_edge_program.items()
        if method in spec.method_to_partitioner
    }
    results = _preprocess(plans)
    lowered = dict(spec.method_to_edge_program)
    for method, plan in plans.items():
        modules = {}
        for tag, extracted in plan.extracted.items():
            module = _lowered_module(
                extracted.program,
                plan.specs[tag],
                results[method, tag],
                extracted.mutated_inputs,
            )
            module.meta[DELEGATION_TAG] = tag
            modules[tag] = (extracted, module)
        if modules:
            lowered[method] = insert_delegates(plan.program, plan.steps, modules)
    return lowered


def _lowered_module(
    program: ExportedProgram,
    spec: DelegationSpec,
    result: PreprocessResult,
    mutated_inputs: tuple[tuple[int, int], ...] = (),
    tree: CallTree | None = None,
) -> LoweredBackendModule:
    if not isinstance(result, PreprocessResult):
        raise TypeError(
            f"preprocess of {spec.backend_id} returned {type(result).__name__}, not a"
            f" PreprocessResult"
        )
    return LoweredBackendModule(
        program,
        spec.backend_id,
        bytes(result.processed_bytes),
        list(spec.compile_specs),
        result.data_store_output,
        mutated_inputs,
        tree,
    )


def _partition(
    method: str, program: ExportedProgram, partitioner: Partitioner
) -> tuple[ExportedProgram, dict[str, DelegationSpec]]:
    """A validated tagged copy of the program, and the specs of its tags."""
    name = type(partitioner).__name__
    tagged = copy_program(program)
    result = partitioner(tagged)
    difference = find_difference(program.graph, result.tagged_exported_program.graph)
    if difference is not None:
        raise RuntimeError(
            f"{name}.partition edited the graph of method {method!r}: {difference}. A partitioner"
            f" only tags nodes (node.meta[{DELEGATION_TAG!r}]); edit the graph in"
            f" transform_passes, or in the backend's preprocess."
        )
    copy = copy_program(program)
    for node, source in zip(
        copy.graph.nodes, result.tagged_exported_program.graph.nodes, strict=True
    ):
        node.meta.pop(DELEGATION_TAG, None)
        if kernels.ON_HOST in node.meta:
            continue  # also of a partitioner that tags all nodes
        for key in (DELEGATION_TAG, LEFT_OUT_REASON, "no_copy"):
            if source.meta.get(key) is not None:
                node.meta[key] = source.meta[key]
    used = {node.meta[DELEGATION_TAG] for node in copy.graph.nodes if DELEGATION_TAG in node.meta}
    unknown = sorted(used - result.partition_tags.keys())
    if unknown:
        raise ValueError(
            f"{name} tagged nodes of method {method!r} with {unknown}, for which its partition_tags"
            f" ({sorted(result.partition_tags)}) have no DelegationSpec"
        )
    return copy, {
        tag: _with_method_name(spec, method) for tag, spec in result.partition_tags.items()
    }


def _with_method_name(spec: DelegationSpec, method: str) -> DelegationSpec:
    specs = list(spec.compile_specs)
    if not any(item.key == METHOD_NAME_KEY for item in specs):
        specs.append(CompileSpec(METHOD_NAME_KEY, method.encode()))
    return DelegationSpec(spec.backend_id, specs)


def _plan(method: str, program: ExportedProgram, partitioner: Partitioner) -> _Plan:
    program = run_passes(program, partitioner.passes())
    tagged, specs = _partition(method, program, partitioner)
    steps = plan_partitions(tagged)
    extracted = {}
    for step in steps:
        if isinstance(step, Partition):
            find_backend(specs[step.tag].backend_id)
            part = extract(tagged, step)
            boundaries = boundaries_of_nodes(step.nodes, lambda tag: specs[tag].backend_id)
            part = replace(part, boundaries=boundaries)
            # A partition without results is dropped, unless it contains assertions.
            if part.results or any(map(kernels.is_assertion, step.nodes)):
                extracted[step.tag] = part
    return _Plan(tagged, steps, specs, extracted)


def _preprocess(plans: dict[str, _Plan]) -> dict[tuple[str, str], PreprocessResult]:
    """Results by method and tag. Each backend is called once, with all its partitions."""
    tags: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for method, plan in plans.items():
        for tag in plan.extracted:
            tags[plan.specs[tag].backend_id][method].append(tag)
    results: dict[tuple[str, str], PreprocessResult] = {}
    for backend_id, methods in tags.items():
        programs = {
            method: [backend_program(plans[method].extracted[tag]) for tag in names]
            for method, names in methods.items()
        }
        specs = {
            method: [list(plans[method].specs[tag].compile_specs) for tag in names]
            for method, names in methods.items()
        }
        made = find_backend(backend_id).preprocess_multimethod(programs, specs)
        for method, names in methods.items():
            if len(made.get(method, ())) != len(names):
                raise RuntimeError(
                    f"{backend_id}.preprocess_multimethod returned {len(made.get(method, ()))}"
                    f" results for the {len(names)} partitions of method {method!r}"
                )
            results.update(zip(((method, tag) for tag in names), made[method], strict=True))
    return results
