"""Turns programs into the methods of a file.

    emitted = emit_program({"forward": program}, {"max_len": 128}, EmitOptions())
    serialize_program(emitted.data)

Each call of a graph becomes one instruction. Values are numbered in order of first use. Constants
and delegates' data of equal content are stored once for all methods.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from pteron.exir._serialize import model_graph as graph_file
from pteron.exir._serialize import schema
from pteron.exir._serialize.named_data_store import NamedDataStore
from pteron.exir._serialize.program_file import ProgramData
from pteron.exir.emit.emit_options import EmitOptions
from pteron.exir.emit.method_emitter import MethodEmitter, container_types
from pteron.exir.emit.model_graph import model_graph
from pteron.exir.emit.shared_data import SharedData
from pteron.exir.emit.tensor_slots import TensorSlots, allocate
from pteron.exir.emit.value_table import ValueTable


@dataclass(frozen=True)
class Emitted:
    """An emitted program and its bytes, ready for `serialize_program`.

    Attributes:
      data: the program file.
      named_data: all named data; external tags become .ptd files.
    """

    data: ProgramData
    named_data: NamedDataStore


def emit_program(
    programs: Mapping[str, ExportedProgram],
    constant_methods: Mapping[str, Any],
    options: EmitOptions,
) -> Emitted:
    """Emits methods, sorted by name, and then constant methods, sorted by name."""
    shared = SharedData()
    methods: list[schema.Method] = []
    slots: dict[str, TensorSlots] = {}
    for name in sorted(programs):
        emitter = MethodEmitter(name, programs[name], shared, options)
        methods.append(emitter.emit())
        slots[name] = emitter.slots
        if options.graph:
            shared.named_data.add_named_data(
                graph_file.KEY + name, graph_file.pack(model_graph(programs[name]))
            )
    pools = allocate(slots, options.memory)
    for method in methods:
        method.buffer_sizes, devices = pools[method.name]
        method.buffer_devices = devices or None
        for state in slots[method.name].state:
            if state.initial is not None:
                index = shared.mutable_data.setdefault(state.initial, len(shared.mutable_data))
                state.tensor.data_index = index + 1
    methods += [_constant_method(name, constant_methods[name]) for name in sorted(constant_methods)]
    program = schema.Program(
        methods=methods,
        inline_delegate_data=[schema.InlineBytes(data) for data in shared.inline_delegate_data],
    )
    data = ProgramData(
        program,
        constants=list(shared.constants),
        mutable_data=list(shared.mutable_data),
        delegate_data=list(shared.delegate_data),
        named_data=shared.named_data.get_named_data_store_output(),
    )
    return Emitted(data, shared.named_data)


def _constant_method(name: str, value: Any) -> schema.Method:
    """A method without instructions that returns a constant, such as a sequence length."""
    leaves, spec = pytree.tree_flatten(value)
    table = ValueTable()
    outputs = [table.literal(leaf) for leaf in leaves]
    return schema.Method(
        name=name,
        container_types=container_types(pytree.tree_structure(((), {})), spec, []),
        values=table.values,
        outputs=outputs,
        chains=[schema.Chain()],
        buffer_sizes=[0],
    )
