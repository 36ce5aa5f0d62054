"""What the commands that lower a checkpoint of transformers have in common."""

from collections.abc import Callable
from typing import Any

from absl import flags

from pteron.command.usage import Flags, Stages, UsageError, only, pairs, show


def define_flags(values: Flags) -> None:
    """Flags that every such command has."""
    values.string("output", None, "The program file, *.pte.", short_name="o")
    values.string("backend", "cpu", "cpu, cuda or metal.")
    values.multi_string("option", [], "BACKEND.OPTION=VALUE, as of pteron export. May be repeated.")
    values.string("quantize", "none", "Weights: none, int8, int4 or fp8 (needs torchao).")
    values.string("dtype", "auto", "float32, bfloat16 or float16; auto is the checkpoint's.")
    values.boolean("verify", True, "Compare the program with eager.")


def folder_of(positional: list[str], values: flags.FlagValues) -> str:
    """The command's only argument; UsageError without it, or without an output file."""
    (folder,) = only(positional, "FOLDER", flag="-o")
    if values.output is None:
        raise UsageError("no output file; add -o model.pte")
    return folder


def lower(
    export: Callable[..., Any], folder: str, values: flags.FlagValues, **options: Any
) -> None:
    """Calls `export` with these flags and `options`; shows its stages and its report."""
    stages = Stages()
    with stages.shown():
        report = export(
            folder,
            values.output,
            backend=values.backend,
            quantize=values.quantize,
            dtype=values.dtype,
            options=pairs("option", values.option),
            verify=values.verify,
            on_stage=stages,
            **options,
        )
    show(report, values.json)
