"""Lowers a model to a program file and compares it with eager.

pteron export FILE.py:function -o model.pte
pteron export vit.py:build -o vit.pte --backend=cpu --option=cpu.isa=native --dynamic=image.0=1..8
pteron export vit.py:build -o vit.pte --constant='mean=[0.5, 0.5]' --constant=labels=@names.json
pteron export --ray=models.txt

The file of --ray has one of these on each line, without `pteron export`. They are tasks of the Ray
cluster of $RAY_ADDRESS, by default of this machine; programs come back to where -o says, here.
Lines whose program is there already, of the same model file, are left out.
"""

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
FLAGS.string("output", None, "The program file, *.pte.", short_name="o")
model_file.define_flags(FLAGS)
FLAGS.multi_string(
    "constant",
    [],
    "NAME=JSON, or NAME=@FILE with JSON: a method NAME that returns this value. May be repeated.",
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
FLAGS.string("ray", None, "A file of command lines, for a Ray cluster.")
FLAGS.string(
    "ray-options",
    '{"num_cpus": 1}',
    "What Ray reserves for each line, in JSON, as memory (in bytes) and num_gpus.",
)


def run(positional: list[str]) -> bool:
    if FLAGS.ray is not None:
        return _run_on_ray(positional)
    (name,) = only(positional, "FILE.py:function", flag="-o")
    if FLAGS.output is None:
        raise UsageError("no output file; add -o model.pte")
    from pteron.exir.config import ExecutorchBackendConfig
    from pteron.exporter import check_path, export

    check_path(FLAGS.output)
    partitioners = model_file.partitioners(FLAGS)
    constants = {
        name: _json(f"--constant: {name}", text)
        for name, text in pairs("constant", FLAGS.constant).items()
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


def _run_on_ray(positional: list[str]) -> bool:
    import dataclasses

    from pteron.command import export_on_ray

    given = {FLAGS[name].name for name in FLAGS if FLAGS[name].present}
    given -= {"ray", "ray-options", "json", "traceback"}
    if positional or given:
        found = ", ".join([*positional, *(f"--{name}" for name in sorted(given))])
        raise UsageError(f"found {found} beside --ray; expected them in the lines of {FLAGS.ray}")
    options = _json("--ray-options", FLAGS.get_flag_value("ray-options", "{}"))
    if not isinstance(options, dict):
        raise UsageError(f"--ray-options={options}: expected an object of JSON")
    jobs = export_on_ray.run(FLAGS.ray, FLAGS, options)
    as_json = json.dumps([dataclasses.asdict(job) for job in jobs], indent=2, default=str)
    print(as_json if FLAGS.json else export_on_ray.table(jobs))
    if failed := sum(job.state == "FAILED" for job in jobs):
        raise RuntimeError(f"{failed} of {len(jobs)} programs could not be lowered; errors above")
    return True


def _json(what: str, text: str) -> Any:
    try:
        return json.loads(Path(text[1:]).read_text("utf-8") if text[:1] == "@" else text)
    except (OSError, ValueError) as error:
        raise UsageError(f"{what}={text}: expected JSON or @FILE ({error})") from error
