"""Shared by all commands: flags, help, messages."""

import contextlib
import difflib
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from absl import flags

_INDENT = " " * 6


class UsageError(Exception):
    """Invalid command line."""


class CannotRunHere(Exception):
    """The program may be valid, but this machine cannot run it."""


def _of_flags(define: Callable[..., object]) -> Callable[..., None]:
    def method(self: flags.FlagValues, *arguments: object, **options: object) -> None:
        define(*arguments, **options, flag_values=self)

    return method


class Flags(flags.FlagValues):
    """A command's flags: `FLAGS.string(...)` is `flags.DEFINE_string(..., flag_values=FLAGS)`."""

    boolean = _of_flags(flags.DEFINE_boolean)
    enum = _of_flags(flags.DEFINE_enum)
    float = _of_flags(flags.DEFINE_float)
    integer = _of_flags(flags.DEFINE_integer)
    list = _of_flags(flags.DEFINE_list)
    multi_string = _of_flags(flags.DEFINE_multi_string)
    string = _of_flags(flags.DEFINE_string)


def command_flags() -> Flags:
    """The flags of all commands; each adds its own."""
    values = Flags()  # type: ignore[no-untyped-call]
    values.boolean("help", False, "Print this.", short_name="h")
    values.boolean("json", False, "Print one JSON object instead.")
    values.boolean("traceback", False, "Print where errors come from.")
    return values


def help_of(command: ModuleType) -> str:
    """A command's help text and flags."""
    lines = [(command.__doc__ or "").rstrip(), "", "flags"]
    for name in command.FLAGS:
        flag = command.FLAGS[name]
        if name != flag.name:
            continue  # its short name
        left_out = "" if flag.default in (None, False, []) else f" ({flag.default_as_str[1:-1]})"
        text = flag.help.partition(";\n")[0] + left_out
        lines.append(f"  {_spelled(flag)}")
        lines.append(textwrap.fill(text, 100, initial_indent=_INDENT, subsequent_indent=_INDENT))
    return "\n".join(lines)


def _spelled(flag: flags.Flag[Any]) -> str:
    long = f"--{flag.name}" + ("" if flag.boolean else "=VALUE")
    short = f"-{flag.short_name}, " if flag.short_name else ""
    return short + (long.replace("--", "--[no]") if flag.default is True else long)


def nearest(what: str, name: str, known: Iterable[str]) -> str:
    """A message for an unknown name, with the nearest known one."""
    known = list(known)
    near = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"there is no {what} {name!r}{hint} Known: {', '.join(known) or 'none'}"


def only(positional: list[str], *expected: str, flag: str = "") -> list[str]:
    """The positional arguments, as many as expected; `flag` is suggested for a further one."""
    if len(positional) != len(expected):
        found = " ".join(positional) or "none"
        more = f". try: {flag} {positional[-1]}" if flag and len(positional) > len(expected) else ""
        raise UsageError(f"found arguments: {found}; expected: {' '.join(expected)}{more}")
    return positional


def pairs(flag: str, texts: Iterable[str]) -> dict[str, str]:
    """KEY=VALUE pairs of a repeated flag."""
    wrong = [text for text in texts if "=" not in text]
    if wrong:
        raise UsageError(f"--{flag}: found {', '.join(wrong)}; expected NAME=VALUE")
    return dict(text.split("=", 1) for text in texts)


def show(report: Any, as_json: bool) -> None:
    """Prints a report, as text or (with `to_json`) as JSON."""
    print(json.dumps(report.to_json(), indent=2) if as_json else report)


class Stages:
    """Shows stages and their duration on a terminal; otherwise nothing."""

    def __init__(self) -> None:
        self._progress: Any = None
        self._task: Any = None

    def __call__(self, stage: str) -> None:
        if self._progress is not None:
            self._finish()
            self._task = self._progress.add_task(stage, total=1)

    def _finish(self) -> None:
        if self._task is not None:
            self._progress.update(self._task, completed=1)

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        if not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True)) as self._progress:
            yield
            self._finish()


def human_nbytes(nbytes: float) -> str:
    """As `pteron inspect` shows sizes: `4.2 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 999.95:
            return f"{nbytes:.0f} B" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} TB"
