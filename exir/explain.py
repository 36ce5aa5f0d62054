"""Reports on lowered programs: methods, partitions, boundaries, and sizes.

report = program.explain()
print(report)                              # a plain-text table
report.methods[0].partitions[0].op_counts  # the same data as objects
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node

from pteron.exir._serialize.blob import Blob
from pteron.exir.backend.backend_details import imported_backend
from pteron.exir.backend.partition_boundary import boundaries_of_call
from pteron.exir.backend.partitioner import DELEGATION_TAG
from pteron.exir.backend.utils import get_non_lowered_nodes
from pteron.exir.graph import kernels
from pteron.exir.graph.exported_program import (
    argument_name,
    constant_tensor,
    flat_outputs,
    input_specs_by_name,
    mutation_targets,
)
from pteron.exir.graph.lowered_backend_module import LoweredBackendModule, lowered_modules
from pteron.exir.graph.shape_bounds import ShapeBounds
from pteron.exir.passes.checkable_asserts import CheckableAsserts
from pteron.exir.passes.run import run_passes
from pteron.exir.undelegated import pending_calls


@dataclass(frozen=True)
class ConstantReport:
    """A tensor of the model that partitions own.

    Attributes:
      name: its name in the model.
      nbytes: its size.
      partitions: `method/partition` of each owner.
      copies: how often its bytes are stored: 1 if owners share a named blob, else one per owner.
    """

    name: str
    nbytes: int
    partitions: tuple[str, ...]
    copies: int

    @property
    def duplicated_nbytes(self) -> int:
        return (self.copies - 1) * self.nbytes


@dataclass(frozen=True)
class PartitionReport:
    """One delegate.

    Attributes:
      name: of the lowered module in the program.
      tag: the partitioner's tag.
      backend_id: of the backend that runs it.
      op_counts: operator to number of calls, most frequent first.
      inputs: descriptions of its inputs.
      outputs: descriptions of its outputs.
      boundaries: one line per adjacent call outside it, with the reason.
      processed_nbytes: bytes for the backend's runtime half.
      named_nbytes: bytes of its named data (code, weights), shared ones included.
      details: the backend's description.
    """

    name: str
    tag: str
    backend_id: str
    op_counts: dict[str, int]
    inputs: list[str]
    outputs: list[str]
    boundaries: list[str]
    processed_nbytes: int
    named_nbytes: int
    details: Mapping[str, str]


@dataclass(frozen=True)
class MethodReport:
    """One method.

    Attributes:
      name: its name.
      inputs: described, in order.
      outputs: described, in order.
      state: buffers that it mutates, described.
      partitions: its delegates, in order.
      kernels: number of calls per runtime kernel.
      pending: number of calls per operator that no partitioner took; `to_executorch` compiles them.
      outside: bytes of constants that no delegate owns.
      verification: result of the comparison with the exported program; empty before it is emitted.
    """

    name: str
    inputs: list[str]
    outputs: list[str]
    state: list[str]
    partitions: list[PartitionReport]
    kernels: dict[str, int]
    pending: dict[str, int]
    outside: int
    verification: str = ""


@dataclass(frozen=True)
class ProgramReport:
    """A whole program.

    Attributes:
      methods: sorted by name.
      constants: constants of delegates, largest first.
      file_nbytes: size of the program file; None before it is emitted.
      external_nbytes: size of each .ptd file.
    """

    methods: list[MethodReport]
    constants: list[ConstantReport]
    file_nbytes: int | None = None
    external_nbytes: dict[str, int] = field(default_factory=dict)

    @property
    def duplicated_nbytes(self) -> int:
        """Duplicate bytes of constants that several delegates own."""
        return sum(constant.duplicated_nbytes for constant in self.constants)

    def __str__(self) -> str:
        lines = [line for method in self.methods for line in _method_lines(method)]
        lines += _constant_lines(self.constants, self.duplicated_nbytes)
        if self.file_nbytes is not None:
            lines.append("file".ljust(_COLUMN) + _size(self.file_nbytes))
        for tag, nbytes in self.external_nbytes.items():
            lines.append("external".ljust(_COLUMN) + f"{tag}.ptd {_size(nbytes)}")
        return "\n".join(lines)


def explain(programs: Mapping[str, ExportedProgram]) -> ProgramReport:
    """Reports on lowered programs. Reads the bytes only of constants with several owners."""
    return ProgramReport(
        [_method(name, programs[name]) for name in sorted(programs)],
        _constants(programs),
    )


# ---- Gathering.


def _describe(value: object, name: str = "", bounds: ShapeBounds | None = None) -> str:
    def described(size: int | torch.SymInt) -> str:
        upper = bounds.upper(size, name) if bounds and not isinstance(size, int) else 0
        return f"{size} <= {upper}" if upper else str(size)

    if isinstance(value, torch.Tensor):
        shape = ", ".join(map(described, value.shape))
        text = f"{str(value.dtype).removeprefix('torch.')}[{shape}]"
    else:
        text = repr(value) if not isinstance(value, torch.SymInt) else f"int {value}"
    return f"{name} {text}" if name else text


def _method(name: str, program: ExportedProgram) -> MethodReport:
    specs = input_specs_by_name(program)
    values = {n.name: n.meta.get("val") for n in program.graph.find_nodes(op="placeholder")}
    changed = {target for _, target in mutation_targets(program)}
    for call, module in lowered_modules(program.graph_module):
        changed.update(_argument(call, index).name for _, index in module.mutated_inputs)
    outputs = [
        _describe(value.meta.get("val") if isinstance(value, Node) else value)
        for value, spec in zip(
            flat_outputs(program.graph),
            program.graph_signature.output_specs,
            strict=True,
        )
        if spec.kind is OutputKind.USER_OUTPUT
    ]
    model = {n: s for n, s in specs.items() if s.kind is not InputKind.USER_INPUT}
    left = map(kernels.kernel_of, get_non_lowered_nodes(program.graph))
    bounds = ShapeBounds(program)
    # Dead code will be removed.
    pending = pending_calls(run_passes(program, [CheckableAsserts()]))
    return MethodReport(
        name=name,
        inputs=[_describe(values[n], argument_name(n), bounds) for n in specs if n not in model],
        outputs=outputs,
        state=[_describe(values[n], str(model[n].target)) for n in model if n in changed],
        partitions=[
            _partition(call, module) for call, module in lowered_modules(program.graph_module)
        ],
        kernels=dict(Counter(kernel for kernel in left if kernel).most_common()),
        pending=dict(Counter(str(n.target) for n in pending).most_common()),
        outside=sum(
            constant_tensor(program, spec).nbytes for n, spec in model.items() if n not in changed
        ),
    )


def _argument(call: Node, index: int) -> Node:
    argument = call.args[1 + index]
    assert isinstance(argument, Node)
    return argument


def _partition(call: Node, module: LoweredBackendModule) -> PartitionReport:
    attribute = call.args[0]
    assert isinstance(attribute, Node)
    arguments = [arg for arg in call.args[1:] if isinstance(arg, Node)]
    store = module.named_data_store_output
    counts = Counter(str(n.target) for n in module.nodes())
    return PartitionReport(
        name=str(attribute.target),
        tag=str(module.meta.get(DELEGATION_TAG, "")),
        backend_id=module.backend_id,
        op_counts=dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        inputs=[_describe(arg.meta.get("val"), arg.name) for arg in arguments],
        outputs=[_describe(value) for value in call.meta["val"]],
        boundaries=boundaries_of_call(call),
        processed_nbytes=len(module.processed_bytes),
        named_nbytes=sum(blob.nbytes for blob in store.buffers) if store else 0,
        details=imported_backend(module.backend_id).describe(module.processed_bytes, store),
    )


def _constants(programs: Mapping[str, ExportedProgram]) -> list[ConstantReport]:
    owners: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    tensors: dict[tuple[int, int], tuple[str, torch.Tensor]] = {}
    stored: set[bytes] = set()
    for method in sorted(programs):
        for call, module in lowered_modules(programs[method].graph_module):
            attribute = call.args[0]
            assert isinstance(attribute, Node)
            if module.named_data_store_output is not None:
                stored.update(blob.digest for blob in module.named_data_store_output.buffers)
            part = module.original_module
            for spec in part.graph_signature.input_specs:
                if spec.kind is not InputKind.USER_INPUT:
                    tensor = constant_tensor(part, spec)
                    key = (tensor.data_ptr(), tensor.nbytes)
                    tensors.setdefault(key, (str(spec.target), tensor))
                    owners[key].append(f"{method}/{attribute.target}")
    reports = []
    for key, (name, tensor) in tensors.items():
        users = tuple(owners[key])
        shared = len(users) == 1 or Blob(tensor).digest in stored
        reports.append(ConstantReport(name, tensor.nbytes, users, 1 if shared else len(users)))
    return sorted(reports, key=lambda report: (-report.nbytes, report.name))


# ---- Text.

_SHOWN_CONSTANTS = 10


def _size(nbytes: int) -> str:
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {op.removesuffix('.default')}" for op, count in counts.items())


_COLUMN = 14


def _block(title: str, lines: Iterable[str], indent: int = 2) -> list[str]:
    width = _COLUMN - indent
    return [
        " " * indent + (title if index == 0 else "").ljust(width) + line
        for index, line in enumerate(lines)
    ]


def _method_lines(method: MethodReport) -> list[str]:
    lines = ["method".ljust(_COLUMN) + method.name]
    lines += _block("inputs", method.inputs)
    lines += _block("outputs", method.outputs)
    lines += _block("state", method.state)
    for part in method.partitions:
        total = sum(part.op_counts.values())
        calls = "1 call" if total == 1 else f"{total} calls"
        lines += _block("delegate", [f"{part.name}  {part.backend_id}  {calls}"])
        lines += _block("calls", [_counts(part.op_counts)], 4)
        size = f"{_size(part.processed_nbytes)}, named data {_size(part.named_nbytes)}"
        lines += _block("bytes", [size], 4)
        lines += _block("boundary", part.boundaries or ["inputs and outputs of the method"], 4)
        for key, value in part.details.items():
            lines += _block(key, [value], 4)
    if method.kernels:
        lines += _block("kernels", [_counts(method.kernels)])
    if method.pending:
        lines += _block("pending", [f"{_counts(method.pending)}: compiled by to_executorch"])
    if method.outside:
        lines += _block("outside", [f"{_size(method.outside)} of constants outside delegates"])
    if method.verification:
        lines += _block("verified", [method.verification])
    return lines


def _constant_lines(constants: list[ConstantReport], duplicated: int) -> list[str]:
    if not constants:
        return []
    total = sum(constant.nbytes for constant in constants)
    lines = ["constants".ljust(_COLUMN) + f"{len(constants)}, {_size(total)} owned by delegates"]
    for constant in constants[:_SHOWN_CONSTANTS]:
        owners = f" in {len(constant.partitions)} delegates" if len(constant.partitions) > 1 else ""
        copies = f", stored {constant.copies} times" if constant.copies > 1 else ""
        lines.append(f"  {_size(constant.nbytes).rjust(10)}  {constant.name}{owners}{copies}")
    if len(constants) > _SHOWN_CONSTANTS:
        lines.append(f"              and {len(constants) - _SHOWN_CONSTANTS} more")
    if duplicated:
        lines.append(f"  {_size(duplicated).rjust(10)}  stored again, since delegates own copies")
    return lines
