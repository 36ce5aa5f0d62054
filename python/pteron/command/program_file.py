"""A program file named on a command line, with the tensor data beside it."""

from __future__ import annotations

from pathlib import Path

from absl import flags

from pteron.command.usage import UsageError, nearest
from pteron.runtime import Method, Program, Runtime


def define_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_multi_string(
        "data",
        [],
        "A .ptd file with what the program keeps outside; may be repeated. By default those that"
        " `pteron export` wrote beside it.",
        flag_values=values,
    )


def files_of(name: str, data: list[str]) -> list[Path]:
    """The program and its data. UsageError: something is not there."""
    path = Path(name)
    if not path.is_file():
        raise UsageError(nearest("file", name, sorted(str(p) for p in path.parent.glob("*.pte"))))
    beside = [Path(d) for d in data]
    if not beside:
        beside = sorted(
            {*path.parent.glob(f"{path.stem}.ptd"), *path.parent.glob(f"{path.stem}.*.ptd")}
        )
    missing = [str(file) for file in beside if not file.is_file()]
    if missing:
        raise UsageError(f"--data: there is no file {', '.join(missing)}")
    return [path, *beside]


def load(name: str, data: list[str]) -> Program:
    path, *beside = files_of(name, data)
    return Runtime.get().load_program(path, data_path=beside)


def method_of(program: Program, name: str | None) -> Method:
    """The method that is asked for, or the only one, or `forward`."""
    names = sorted(program.method_names)
    if name is None:
        name = names[0] if len(names) == 1 else "forward"
    if name not in names:
        raise UsageError(f"--method: {nearest('method', name, names)}")
    return program.load_method(name)
