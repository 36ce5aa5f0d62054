"""Lowers a module to a program file, in one call.

    report = pteron.export(model, (x,), "model.pte")
    print(report)  # delegates, sizes, largest difference from eager

It calls `torch.export.export`, `to_edge_transform_and_lower` and `to_executorch`.
"""

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pteron.exir._serialize.container import Chunks
from pteron.exir.config import ExecutorchBackendConfig
from pteron.exir.explain import ProgramReport
from pteron.exir.garbage_collection import collected_rarely
from pteron.exir.program import (
    EdgeProgramManager,
    to_edge_transform_and_lower,
)
from pteron.exporter.backends import Backends, partitioners_of
from pteron.exporter.errors import ExportError
from pteron.exporter.methods import constants_of, export_methods
from pteron.exporter.refusals import short


@dataclasses.dataclass(frozen=True)
class ExportReport:
    """The result of `export`; `print` it for a table.

    Attributes:
      program: delegates, and the difference of each method from eager.
      files: written files with sizes in bytes; the program first.
      seconds: duration of each stage.
      notes: things that the caller may not have intended.
    """

    program: ProgramReport
    files: Mapping[str, int]
    seconds: Mapping[str, float]
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        lines = [str(self.program)]
        lines += [f"wrote     {path}, {nbytes:,} bytes" for path, nbytes in self.files.items()]
        took = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in self.seconds.items())
        return "\n".join([*lines, f"took      {took}", *(f"note      {n}" for n in self.notes)])

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON types."""
        return dataclasses.asdict(self)


@collected_rarely()
def export(
    model: Any,
    args: Any = None,
    path: str | os.PathLike[str] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    strict: bool | None = None,
    constant_methods: Mapping[str, Any] | None = None,
    backend: Backends = "cpu",
    options: Mapping[str, Any] | None = None,
    config: ExecutorchBackendConfig | None = None,
    on_stage: Callable[[str], object] = lambda stage: None,
) -> ExportReport:
    """Exports, lowers and checks a model, and writes it to a file.

    Args:
      model: a module, exported in `eval()` mode; a bound method of one; an ExportedProgram; or a
        dict of methods, each one of these or a tuple of a module, its example inputs and,
        optionally, its dynamic shapes. Methods of one module share weights and state.
      args: example inputs: a tuple, a dict by parameter, or one tensor. The lowered program is
        compared with eager on these and on others derived from them.
      path: the program file, `*.pte`. External data is written to a `.ptd` file with the same name.
      kwargs: example inputs by name, in addition to `args`.
      dynamic_shapes: as in torch.export.export; every Dim needs a `max`.
      strict: as in torch.export.export; None tries False, and True where torch refuses that.
      constant_methods: values (numbers, bools, strings, arrays of them, nested) that methods of
        these names return: labels, a vocabulary, mean and deviation.
      backend: names ("cpu", "cuda", "metal") or partitioners, in the order in which they choose.
        What none takes is compiled for the CPU.
      options: of backends by name, as {"cpu.weights": "shared"}; see CpuOptions, CudaOptions,
        MetalOptions.
      config: options for emitting and verifying the program.
      on_stage: called with the name of each stage before it starts.

    Raises:
      ExportError: what was given cannot be exported; nothing was written.
      VerificationError: the lowered program does not compute what eager does.
      UnsupportedOperatorsError: nothing here does some of the operators; all are listed.
      UnsupportedTorch: lowering does not work with the installed torch; nothing was exported.
      OSError: the file cannot be written.
    """
    if not isinstance(path, str | os.PathLike):
        found = "no path" if path is None else f"a {type(path).__name__} as the path"
        raise ExportError(
            f"found {found} to write to; expected the name of a file.\n"
            'try:  pteron.export(model, (x,), "model.pte"), with the example inputs as a tuple'
        )
    check_path(path)
    constants = constants_of(constant_methods)
    partitioners = partitioners_of(backend, {} if options is None else options)
    if not isinstance(config, ExecutorchBackendConfig | None):
        raise ExportError(
            f"config: found a {type(config).__name__}; expected an ExecutorchBackendConfig.\n"
            f"try:  pteron.ExecutorchBackendConfig(verify=False)"
        )
    seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(name: str) -> Iterator[None]:
        on_stage(name)
        begin = time.monotonic()
        try:
            yield
        except (ValueError, OSError, MemoryError):
            raise
        except Exception as error:
            if type(error).__module__.startswith("pteron."):
                raise
            raise ExportError(
                f"torch.export took the model, but to {name} fails ({type(error).__name__}):\n"
                f"{short(error)}\n"
                f"try:  other operators at that line; and please report it, with what"
                f" pteron export --traceback shows"
            ) from error
        seconds[name] = time.monotonic() - begin

    with stage("export"):
        verified = config is None or bool(config.verify)
        programs, notes = export_methods(
            model, args, kwargs, dynamic_shapes, strict=strict, run=verified
        )
        both = sorted(constants.keys() & programs.keys())
        if both:
            raise ExportError(
                f"constant_methods: {', '.join(both)} are methods of the model; use other names"
            )
    with stage("lower"):
        edge: EdgeProgramManager = to_edge_transform_and_lower(
            programs, partitioner=partitioners, constant_methods=constants
        )
    with stage("compile what is left and compare"):
        program = edge.to_executorch(config)
    with stage("save"):
        files = save_files(program._chunks, program._tensor_data, Path(path))
    if len(files) > 1:
        beside = ", ".join(list(files)[1:])
        notes.append(f"the program needs {beside}, too: load_program(path, data_path=...)")
    return ExportReport(program.explain(), files, seconds, notes)


def check_path(path: str | os.PathLike[str]) -> None:
    """Raises ExportError early if the program could not be saved."""
    found = Path(path)
    if found.suffix != ".pte":
        raise ExportError(
            f"the program file is to be {os.fspath(path)!r}; expected a name that ends in .pte.\n"
            f"try:  {os.fspath(found.with_suffix('.pte'))!r}"
        )
    folder = found.absolute().parent
    if found.is_dir():
        problem, remedy = "it is a folder", "a name in it, as " + repr(str(found / "model.pte"))
    elif not folder.is_dir():
        problem = f"there is no folder {str(found.parent)!r}"
        remedy = "making it first (mkdir -p), or another path"
    elif not os.access(folder, os.W_OK):
        problem, remedy = f"the folder {str(folder)!r} may not be written to", "another path"
    else:
        return
    raise ExportError(f"{os.fspath(path)!r} cannot be written: {problem}.\ntry:  {remedy}")


def save_files(program: Chunks, data: Mapping[str, Chunks], path: Path) -> dict[str, int]:
    """Writes external data by tag, then the program; returns sizes by file, the program first."""
    files = {path: program}
    for tag, chunks in data.items():
        files[path.with_suffix(".ptd" if len(data) == 1 else f".{tag}.ptd")] = chunks
    for file, chunks in reversed(files.items()):
        chunks.save(file)
    return {str(file): chunks.nbytes for file, chunks in files.items()}
