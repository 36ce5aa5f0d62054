"""A program file on the command line, with its tensor-data files."""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pteron.command.usage import Flags, UsageError, nearest
from pteron.runtime import InvalidProgramError, Limits, Method, MethodMeta, Program, Runtime

if TYPE_CHECKING:
    from pteron.exir._serialize import schema
    from pteron.exir._serialize.model_graph import GraphNode


@dataclasses.dataclass(frozen=True)
class Known:
    """What a program says of the inputs of a method; plain JSON types.

    Attributes:
      ranges: least and greatest value of inputs of integers, by name.
      image: options of images that methods without inputs return: `mean`, `std`, `channel_order`.
    """

    ranges: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)
    image: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def define_flags(flag_values: Flags, name: str = "data") -> None:
    flag_values.multi_string(
        name,
        [],
        "A .ptd file with what the program keeps outside; may be repeated. By default those that"
        " `pteron export` wrote beside it.",
    )


def files_of(name: str, data: list[str], flag: str = "data") -> list[Path]:
    """The program and its data, which `flag` names. UsageError if a file is missing."""
    path = Path(name)
    if name and path.is_dir():
        raise UsageError(f"{name!r} is a folder; expected a program file in it, as model.pte")
    if name and path.exists() and not path.is_file():
        raise UsageError(
            f"{name!r} is a pipe or device; expected a file, which memory is mapped to.\n"
            f"try:  cat {name} > model.pte"
        )
    if not path.is_file():
        raise UsageError(
            nearest("file", name, sorted(str(p) for p in path.parent.glob("*.pte") if p.is_file()))
        )
    beside = [Path(d) for d in data]
    if not beside:
        beside = sorted(
            {*path.parent.glob(f"{path.stem}.ptd"), *path.parent.glob(f"{path.stem}.*.ptd")}
        )
    missing = [str(file) for file in beside if not file.is_file()]
    if missing:
        raise UsageError(f"--{flag}: there is no file {', '.join(missing)}")
    return [path, *beside]


def load(name: str, data: list[str], limits: Limits | None = None) -> Program:
    path, *beside = files_of(name, data)
    try:
        return Runtime.get().load_program(path, data_path=beside, limits=limits)
    except InvalidProgramError as error:
        raise RuntimeError(f"{error}\ntry:  {_instead_of(path, str(error))}") from error


def tables_of(file: Path) -> tuple[schema.Program, dict[str, list[GraphNode]]]:
    """The tables of a program, and the graphs of the methods that have one. For a file that was
    loaded, which has checked it. ValueError for a graph or a name that cannot be read."""
    from pteron.exir._serialize import model_graph, schema
    from pteron.exir._serialize.container import PROGRAM, open_container
    from pteron.exir._serialize.flatbuffer import from_flatbuffer

    with file.open("rb") as opened:
        container = open_container(
            PROGRAM, memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
        )
    try:
        tables: schema.Program = from_flatbuffer(schema.Program, bytes(container.flatbuffer))
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: a name in it is no UTF-8: {error.object!r}") from error
    graphs = {}
    for item in tables.named_data or ():
        if item.key.startswith(model_graph.KEY):
            segment = tables.segments[item.segment_index]
            data = container.segment(item.segment_index, segment.offset, segment.size)
            graphs[item.key.removeprefix(model_graph.KEY)] = model_graph.unpack(bytes(data))
    return tables, graphs


def known_inputs(name: str, program: Program, method: str, texts: Sequence[str]) -> Known:
    """What the program says of the inputs of a method, as far as `texts` of --input need it."""
    graph: list[GraphNode] = []
    if any("random" in text for text in texts):
        with contextlib.suppress(ValueError):  # a graph of a later version
            graph = tables_of(Path(name))[1].get(method, [])
    return Known(
        ranges={node.name: node.range for node in graph if node.op == "input" and node.range},
        image={
            constant: program.load_method(constant)()
            for constant in ("mean", "std", "channel_order")
            if constant in program.method_names and _is_constant(program.metadata(constant))
        },
    )


def _is_constant(meta: MethodMeta) -> bool:
    return not (meta.num_inputs() or meta.backends() or meta.operators())


def _instead_of(path: Path, problem: str) -> str:
    """A remedy for a file that is no program, or incomplete."""
    if "truncated" in problem:
        return "copying the file again, all of it, or pteron export"
    if "tensor-data file" in problem:
        return "the .ptd file that pteron export wrote beside the program"
    if path.suffix == ".py":
        return f"pteron export {path}:FUNCTION -o model.pte, and model.pte"
    if zipfile.is_zipfile(path):
        return "pteron export of the module; for torch.export.save's, of torch.export.load(file)"
    return "a file that pteron export wrote"


def method_of(program: Program, name: str | None) -> Method:
    """The requested method, or the only one, or `forward`."""
    return program.load_method(method_name_of(program, name))


def method_name_of(program: Program, name: str | None) -> str:
    """Likewise, its name; loads nothing."""
    names = sorted(program.method_names)
    if name is None:
        name = names[0] if len(names) == 1 else "forward"
    if name not in names:
        raise UsageError(f"--method: {nearest('method', name, names)}")
    return name
