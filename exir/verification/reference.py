"""Runs exported programs as the reference of the comparison."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Interpreter
from torch.utils import _pytree as pytree

from pteron.exir.graph.export_guards import is_relation
from pteron.exir.graph.exported_program import constant_tensor, input_specs_by_name
from pteron.exir.verification.call import State, call, on_host
from pteron.exir.verification.interpreters import CheckingInterpreter

_CALLS_WITH_STATE = 3


@dataclass(frozen=True)
class Reference:
    """An exported program and its inputs.

    Attributes:
      program: the exported program.
      functional: its functionalized form.
      given: flat inputs instead of the example's; the program may fail on them.
      layout: changes the strides of each input.
      where: describes these inputs in messages.
      begun: start of lowering, `time.monotonic` seconds.
      guards: export's guards on sizes, recorded before lowering adds its own.
    """

    program: ExportedProgram
    functional: ExportedProgram
    given: Sequence[Any] | None = None
    layout: Callable[[torch.Tensor], torch.Tensor] = torch.clone
    where: str = "on its example inputs"
    begun: float = field(default_factory=time.monotonic)
    guards: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        if self.guards is None:
            object.__setattr__(self, "guards", _guards_of(self.program))

    @cached_property
    def obstacle(self) -> str:
        """Why it cannot be run; empty if it can."""
        if self.program.example_inputs is None:
            return "the exported program carries no example inputs"
        tensors = [
            *pytree.tree_leaves(self.program.example_inputs),
            *self.program.state_dict.values(),
            *self.program.constants.values(),
        ]
        if any(isinstance(x, FakeTensor) or getattr(x, "is_meta", False) for x in tensors):
            return "the exported program has tensors without data"
        if any(s.kind is InputKind.TOKEN for s in self.program.graph_signature.input_specs):
            return "the exported program has effects that are ordered by tokens"
        return ""

    @cached_property
    def changed_inputs(self) -> list[int]:
        """Positions of the user inputs that the program mutates."""
        changed = self.functional.graph_signature.user_inputs_to_mutate.values()
        specs = input_specs_by_name(self.functional).items()
        names = [name for name, spec in specs if spec.kind is InputKind.USER_INPUT]
        return [index for index, name in enumerate(names) if name in changed]

    @property
    def call_count(self) -> int:
        """Number of calls: several if there is state."""
        return _CALLS_WITH_STATE if self.state() else 1

    def inputs(self) -> list[Any]:
        """The inputs, flat, copied."""
        return [
            self.layout(value.detach()) if isinstance(value, torch.Tensor) else value
            for value in (self._example() if self.given is None else self.given)
        ]

    def _example(self) -> list[Any]:
        assert self.program.example_inputs is not None
        args, kwargs = self.program.example_inputs
        in_spec = self.program.call_spec.in_spec
        if kwargs and in_spec is not None:
            # In the pytree of the call, independent of the names at export.
            names = in_spec.children()[1].context
            kwargs = {name: kwargs[name] for name in names}
        return pytree.tree_leaves((args, kwargs))

    def state(self) -> State:
        """Copies of the initial values of mutated buffers."""
        signature = self.functional.graph_signature
        changed = set(signature.buffers_to_mutate.values())
        return {
            str(spec.target): constant_tensor(self.program, spec).detach().clone()
            for spec in self.program.graph_signature.input_specs
            if spec.kind is InputKind.BUFFER and spec.target in changed
        }

    def run(self) -> list[list[Any]]:
        """Results of each call of the exported program: outputs, then mutated inputs."""
        return self._run(self.program, Interpreter if self.given is None else CheckingInterpreter)

    def run_functional(
        self, interpreter: Callable[[GraphModule], Interpreter] = Interpreter
    ) -> list[list[Any]]:
        """Results of each call, of the functional program."""
        return self._run(self.functional, interpreter)

    def _run(self, program: ExportedProgram, interpreter: Any) -> list[list[Any]]:
        state, results = self.state(), []
        for _ in range(self.call_count):
            inputs = self.inputs()
            outputs = call(program, inputs, state, interpreter)
            results.append(outputs + [on_host(inputs[index]) for index in self.changed_inputs])
        return results

    def random_outputs(self) -> frozenset[int]:
        """Positions of outputs that depend on the random number generator."""
        if not any(_may_be_random(node) for node in _nodes(self.functional)):
            return frozenset()
        runs = []
        for seed in range(2):
            with torch.random.fork_rng(_devices_in_use()):
                torch.manual_seed(seed)
                runs.append(self.run_functional())
        return frozenset(
            index
            for first, second in zip(*runs, strict=True)
            for index, (a, b) in enumerate(zip(first, second, strict=True))
            if not _same(a, b)
        )


def _guards_of(program: ExportedProgram) -> list[Any]:
    """Guards on input sizes, except inequalities (!=) that only reflect the traced example."""
    values = [node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")]
    sizes = [s for v in values for s in (v.shape if isinstance(v, torch.Tensor) else [v])]
    environments: set[Any] = {s.node.shape_env for s in sizes if isinstance(s, torch.SymInt)}
    guards = [
        guard.expr.xreplace(environment.replacements)
        for environment in environments
        for guard in environment.guards
    ]
    return [guard for guard in guards if not isinstance(guard, sympy.Ne) or is_relation(guard)]


def _devices_in_use() -> list[int]:
    """Devices whose generator may have been used; otherwise torch would initialize all devices."""
    return [torch.cuda.current_device()] if torch.cuda.is_initialized() else []


def _nodes(program: ExportedProgram) -> list[torch.fx.Node]:
    modules = [m for m in program.graph_module.modules() if isinstance(m, GraphModule)]
    return [node for module in modules for node in module.graph.nodes]


def _may_be_random(node: torch.fx.Node) -> bool:
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    declared = node.target._schema.arguments  # type: ignore[union-attr]
    arguments = {argument.name: argument.default_value for argument in declared}
    arguments.update(zip(arguments, node.args, strict=False), **node.kwargs)
    off = {"dropout_p": 0, "dropout": 0, "p": 0, "train": False, "training": False}
    return not any(arguments.get(name) == value for name, value in off.items())


def _same(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor):
        return bool(a == b)
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
