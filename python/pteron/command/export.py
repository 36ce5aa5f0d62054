"""Lowers a model to a program file and compares it with eager.

pteron export FILE.py:function -o model.pte
pteron export vit.py:build -o vit.pte --backend=cpu --option=cpu.isa=native --dynamic=image.0=1..8
pteron export vit.py:build -o vit.pte --constant='mean=[0.5, 0.5]' --constant=labels=@names.json
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from absl import flags

from pteron.command import model_file
from pteron.command.usage import Stages, UsageError, command_flags, only, pairs, show

__doc__ += model_file.FORM


class _Verify(flags.BooleanParser):
    """A boolean, or "example"."""

    def parse(self, argument: Any) -> Any:
        return argument if argument == "example" else super().parse(argument)


FLAGS = command_flags()
flags.DEFINE_string("output", None, "The program file, *.pte.", short_name="o", flag_values=FLAGS)
model_file.define_flags(FLAGS)
flags.DEFINE_multi_string(
    "constant",
    [],
    "NAME=JSON, or NAME=@FILE with JSON: a method NAME that returns this value. May be repeated.",
    flag_values=FLAGS,
)
flags.DEFINE_flag(
    flags.Flag(
        _Verify(),
        flags.ArgumentSerializer(),
        "verify",
        True,
        "Compare the program with eager and fail on a difference; =example: on its example inputs"
        " alone, without other sizes, layouts and NaN.",
        boolean=True,
    ),
    FLAGS,
)


def run(positional: list[str]) -> bool:
    (name,) = only(positional, "FILE.py:function", flag="-o")
    if FLAGS.output is None:
        raise UsageError("no output file; add -o model.pte")
    from pteron.exir.config import ExecutorchBackendConfig
    from pteron.exporter import check_path, export

    check_path(FLAGS.output)
    partitioners = model_file.partitioners(FLAGS)
    constants = {
        name: _json(name, text) for name, text in pairs("constant", FLAGS.constant).items()
    }
    stages = Stages()
    with stages.shown():
        stages("load the model")
        methods, dynamic_shapes = model_file.methods(name, FLAGS)
        report = export(
            methods,
            path=FLAGS.output,
            dynamic_shapes=dynamic_shapes,
            constant_methods=constants,
            backend=partitioners,
            config=ExecutorchBackendConfig(verify=FLAGS.verify),
            on_stage=stages,
        )
    show(report, FLAGS.json)
    return True


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(Path(text[1:]).read_text("utf-8") if text[:1] == "@" else text)
    except (OSError, ValueError) as error:
        raise UsageError(f"--constant: {name}={text}: expected JSON or @FILE ({error})") from error
