"""Runs an in-memory program file with the runtime, in this process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from pteron.exir._serialize import schema
from pteron.exir._serialize.container import Chunks
from pteron.exir.backend.backend_details import imported_backend
from pteron.exir.backend.compile_spec_schema import CompileSpec
from pteron.exir.verification.call import on_host

if TYPE_CHECKING:
    from pteron.runtime import Program


@dataclass(frozen=True)
class Written:
    """A serialized program.

    Attributes:
      tables: the emitted tables.
      program: bytes of the program file.
      tensor_data: bytes of each .ptd file, by tag.
    """

    tables: schema.Program
    program: Chunks
    tensor_data: Mapping[str, Chunks]


class CannotRunHere(Exception):
    """This machine cannot run the program, which may be correct."""


@contextlib.contextmanager
def loaded(written: Written) -> Iterator[Program]:
    """Opens the program with the runtime. Its bytes are copied once, into memfds."""
    try:
        from pteron.runtime import Runtime
    except ModuleNotFoundError as error:
        raise CannotRunHere(f"the runtime is missing ({error}): add //runtime") from error

    with contextlib.ExitStack() as stack:
        files = (written.program, *written.tensor_data.values())
        paths = [stack.enter_context(_memory_file(chunks)) for chunks in files]
        yield Runtime.get().load_program(paths[0], data_path=paths[1:])


@contextlib.contextmanager
def _memory_file(chunks: Chunks) -> Iterator[str]:
    with os.fdopen(os.memfd_create("program", os.MFD_CLOEXEC), "wb") as file:
        chunks.write_to(file)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


class Execution:
    """Runs one method of a program, loaded once if it has no state.

    Args:
      program: from `loaded`.
      tables: the emitted method.
      changed_inputs: positions of mutated inputs, whose values are appended to the outputs.
      has_state: whether calls depend on earlier ones.

    Raises:
      CannotRunHere: a backend or a device is missing.
      PteronError: any other error of the runtime.
    """

    def __init__(
        self,
        program: Program,
        tables: schema.Method,
        changed_inputs: Sequence[int] = (),
        *,
        has_state: bool = True,
    ) -> None:
        from pteron.runtime import Runtime

        self._program, self._tables, self._changed = program, tables, changed_inputs
        registry = Runtime.get().backend_registry
        backends = sorted(set(program.metadata(tables.name).backends()))
        obstacles = {name: registry.obstacle(name) for name in backends}
        missing = [f"{name} cannot run here: {why}" for name, why in obstacles.items() if why]
        if missing:
            raise CannotRunHere("; ".join(missing))
        self._options = _load_options(tables)
        self._methods = [] if has_state else [self._load(options) for options in self._options]

    def _load(self, options: Mapping[str, Any]) -> Any:
        from pteron.runtime import BackendError

        try:
            return self._program.load_method(self._tables.name, backend_options=options)
        except BackendError as error:
            if error.code != "DelegateInvalidCompatibility":
                raise
            raise CannotRunHere(str(error)) from error

    def run(self, calls: Callable[[], Sequence[Sequence[Any]]]) -> list[list[Any]]:
        """Outputs of each call in host memory, then those of the same calls for each further code
        variant that this machine can run. `calls` creates flat inputs of each call."""
        results = []
        for method in self._methods or map(self._load, self._options):
            for inputs in calls():  # A run may mutate its inputs and aliases of them.
                moved = _on_devices(self._tables, inputs)
                outputs = method.execute(moved)
                changed = (moved[i] for i in self._changed)
                results.append([on_host(v) for v in (*outputs, *changed)])
        return results


def _load_options(tables: schema.Method) -> list[dict[str, Mapping[str, bool | int | str]]]:
    """No options, then options that select another variant for all delegates of a backend."""
    chosen: dict[str, list[Mapping[str, bool | int | str]]] = {}
    for delegate in tables.delegates:
        specs = _compile_specs(delegate)
        known = imported_backend(delegate.id).get_load_options(specs)
        chosen[delegate.id] = [o for o in chosen.get(delegate.id, known) if o in known]
    return [{}, *({name: option} for name, options in chosen.items() for option in options)]


def precision_of_products(tables: schema.Method) -> torch.dtype | None:
    """Whose precision operands of float32 matmuls may have in a delegate of the method, the least;
    see `BackendDetails`."""
    found = [
        imported_backend(delegate.id).precision_of_products(_compile_specs(delegate))
        for delegate in tables.delegates
    ]
    return max(filter(None, found), key=lambda dtype: torch.finfo(dtype).eps, default=None)


def _compile_specs(delegate: schema.Delegate) -> list[CompileSpec]:
    return [CompileSpec(spec.key, spec.value) for spec in delegate.compile_specs or ()]


def _on_devices(tables: schema.Method, inputs: Sequence[Any]) -> list[Any]:
    """Inputs on the devices that the method expects."""
    moved = []
    for index, value in zip(tables.inputs, inputs, strict=True):
        tensor = tables.values[index].value
        if isinstance(value, torch.Tensor) and isinstance(tensor, schema.Tensor):
            device = "cpu"
            if tensor.extra and tensor.extra.device_type is not schema.DeviceType.CPU:
                device = f"{tensor.extra.device_type.name.lower()}:{tensor.extra.device_index}"
            value = value.to(device)
        moved.append(value)
    return moved
