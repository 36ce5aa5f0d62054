"""Lowers a model to a program file and compares it with eager.

pteron export FILE.py:function -o model.pte
pteron export vit.py:build -o vit.pte --backend=cpu --option=cpu.isa=native --dynamic=image.0=1..8
"""

from __future__ import annotations

from typing import Any

from absl import flags

from pteron.command import model_file
from pteron.command.usage import Stages, UsageError, command_flags, only, show
from pteron.exir.config import ExecutorchBackendConfig
from pteron.exporter import check_path, export

__doc__ += model_file.FORM


class _Verify(flags.BooleanParser):
    """A boolean, or "example"."""

    def parse(self, argument: Any) -> Any:
        return argument if argument == "example" else super().parse(argument)


FLAGS = command_flags()
flags.DEFINE_string("output", None, "The program file, *.pte.", short_name="o", flag_values=FLAGS)
model_file.define_flags(FLAGS)
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
    check_path(FLAGS.output)
    partitioners = model_file.partitioners(FLAGS)
    stages = Stages()
    with stages.shown():
        stages("load the model")
        methods, dynamic_shapes = model_file.methods(name, FLAGS)
        report = export(
            methods,
            path=FLAGS.output,
            dynamic_shapes=dynamic_shapes,
            backend=partitioners,
            config=ExecutorchBackendConfig(verify=FLAGS.verify),
            on_stage=stages,
        )
    show(report, FLAGS.json)
    return True
