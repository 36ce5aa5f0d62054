"""Runs a method of a program once; needs no torch.

    pteron run model.pte --input x=x.npy
    pteron run model.pte --input image=cat.png -o outputs.npz
    pteron run model.pte --input image=cat.png:mean=0.485,0.456,0.406:std=0.229,0.224,0.225
    pteron run model.pte --input random

Without -o, a summary of the outputs is printed.

A program that is not trusted: --isolated loads and runs its code in a process of its own, which can
open no file or device, use no network, start or signal no process, and allocate --memory at most.
"""

import dataclasses
import json
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pteron.command import isolated, program_file, values
from pteron.command.usage import UsageError, command_flags, only
from pteron.runtime import Limits, MethodMeta, Program, PteronError, Runtime

FLAGS = command_flags()
program_file.define_flags(FLAGS)
values.define_flags(FLAGS)
FLAGS.list(
    "limits",
    [],
    "What it may use: run_time (seconds), instructions, planned_bytes, load_bytes; such as"
    " run_time=0.5,planned_bytes=67108864.",
)
FLAGS.boolean("isolated", False, "Run the program's code in a process without rights.")
FLAGS.integer("memory", 4096, "MB that it may allocate if --isolated.", lower_bound=1)
FLAGS.string("method", None, "Its only one, or forward.")
FLAGS.string("output", None, "A file .npz, .safetensors or .npy.", short_name="o")


def run(positional: list[str]) -> bool:
    (name,) = only(positional, "model.pte", flag="--input")
    begin = time.monotonic()
    program = program_file.load(name, FLAGS.data, _limits())
    meta = program.metadata(program_file.method_name_of(program, FLAGS.method))
    execute: Callable[[list[Any]], list[Any]] = (
        partial(_isolated, program, meta)
        if FLAGS.isolated
        else program.load_method(meta.name()).execute
    )
    load_s = time.monotonic() - begin
    if FLAGS.output is not None:
        values.check_output(Path(FLAGS.output), meta.num_outputs())
    known = program_file.known_inputs(name, program, meta.name(), FLAGS.input)
    inputs = values.inputs_of(meta, FLAGS.input, known)
    begin = time.monotonic()
    flat = execute(inputs)
    run_s = time.monotonic() - begin
    outputs = dict(zip(values.output_names_of(meta), flat, strict=True))
    if FLAGS.output is not None:
        values.save(Path(FLAGS.output), outputs)
    about = {key: values.summary(value) for key, value in outputs.items()}
    if FLAGS.json:
        print(json.dumps({"outputs": about, "load_s": load_s, "first_call_s": run_s}, indent=2))
    elif FLAGS.output is None:
        for key, figures in about.items():
            print(f"{key}  {figures.pop('dtype')}{figures.pop('shape')}")
            for what, value in figures.items():
                print(f"  {what:<10}  {_text(value)}")
    return True


def _isolated(program: Program, meta: MethodMeta, inputs: list[Any]) -> list[Any]:
    """Outputs of the method, in a process of its own. It opens no library, so this does."""
    for backend in meta.backends():
        if problem := Runtime.get().backend_registry.obstacle(backend):
            raise RuntimeError(f"{backend} cannot run here: {problem}")
    limit = _limits().run_time
    return isolated.run(
        lambda: program.load_method(meta.name()).execute(inputs),
        count=meta.num_outputs(),
        memory_nbytes=FLAGS.memory << 20,
        run_time=math.inf if limit is None else limit,
    )


def _limits() -> Limits:
    found: dict[str, Any] = {}
    for part in FLAGS.limits:
        name, _, value = part.partition("=")
        try:
            found[name] = float(value) if name == "run_time" else int(value)
            Limits(**found)
        except (ValueError, TypeError, PteronError) as error:
            expected = ", ".join(field.name for field in dataclasses.fields(Limits))
            raise UsageError(
                f"--limits: found {part!r}, expected NAME=NUMBER of 0 or more; names: {expected}"
            ) from error
    return Limits(**found)


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value)) + ", ..."
    return f"{value:.6g}" if isinstance(value, float) else str(value)
