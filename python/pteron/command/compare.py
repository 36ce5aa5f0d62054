"""Compares a program file with its model in eager.

    pteron compare model.pte FILE.py:function

Compares each output by its worst element against the tolerance there, on the example inputs and on
other sizes, strides and values derived from them. On a difference, lowers the model again, with the
same --backend and --option as for `export`, and searches for the first operator that differs. Exit
code 3: outputs differ; 4: this machine cannot run the program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from pteron.command import model_file, program_file
from pteron.command.usage import CannotRunHere, Stages, command_flags, only

if TYPE_CHECKING:  # torch is imported when a model is, not for --help
    from pteron.exir.verification.verify import MethodVerification

__doc__ += model_file.FORM

FLAGS = command_flags()
program_file.define_flags(FLAGS)
model_file.define_flags(FLAGS)


def run(positional: list[str]) -> bool:
    name, model = only(positional, "model.pte", "FILE.py:function")
    from pteron.exir._serialize.program_file import deserialize_program
    from pteron.exir.program import to_edge
    from pteron.exir.verification.verify import differences, verify_method
    from pteron.exporter import ExportError, export_methods

    partitioners = model_file.partitioners(FLAGS)
    program = program_file.load(name, FLAGS.data)
    path = program_file.files_of(name, FLAGS.data)[0]
    tables = {m.name: m for m in deserialize_program(path.read_bytes()).program.methods}
    stages = Stages()
    with stages.shown():
        stages("load and export the model")
        methods, shapes = model_file.methods(model, FLAGS)
        programs, _ = export_methods(methods, dynamic_shapes=shapes)
        if missing := sorted(programs.keys() - program.method_names):
            raise ExportError(f"{name} has no method {', '.join(missing)} of {model}")
        stages("run both")
        references = to_edge(programs)._references
        for m, exported in programs.items():
            inputs, outputs = references[m].inputs(), exported.graph_signature.user_outputs
            found = len(inputs), len(outputs)
            expected = len(tables[m].inputs), len(tables[m].outputs)
            if found != expected:
                raise ExportError(
                    f"method {m!r} of {name} takes {expected[0]} inputs and gives {expected[1]}"
                    f" outputs, that of {model} {found[0]} and {found[1]}.\n"
                    f"try:  what the program was made from"
                )
        reports = {
            m: verify_method(nullcontext(program), tables[m], references[m]) for m in programs
        }
        wrong = {m: report for m, report in reports.items() if report.wrong}
        if wrong:
            stages("lower again and search for the first operator that differs")
            origin = _origin(programs, partitioners)
    if FLAGS.json:
        shown = {m: _as_json(report) for m, report in reports.items()}
        print(json.dumps({"methods": shown, "origin": origin if wrong else ""}, indent=2))
    else:
        for method, report in reports.items():
            if method in wrong:
                print(differences(method, tables[method], report))
            elif not report.obstacle:
                print(f"method {method!r}: {report}")
        if wrong:
            print(origin)
    if not wrong:
        _check_compared(reports)
    return not wrong


def _check_compared(reports: Mapping[str, MethodVerification]) -> None:
    """Raises an error that lists the methods that were not compared, with reasons."""
    obstacles = {m: report.obstacle for m, report in reports.items() if report.obstacle}
    lines = [f"method {m!r} was not compared: {obstacle}" for m, obstacle in obstacles.items()]
    if not all(reports[m].runs_here for m in obstacles):
        lines.append("try:  the same command on a machine that can run the program")
        raise CannotRunHere("\n".join(lines))
    if obstacles:
        from pteron.exporter import ExportError

        raise ExportError("\n".join(lines))


def _origin(programs: Any, partitioners: Any) -> str:
    from pteron.exir.program import to_edge_transform_and_lower
    from pteron.exir.verification.verify import VerificationError

    try:
        to_edge_transform_and_lower(programs, partitioner=partitioners).to_executorch()
    except VerificationError as error:
        return f"lowered again, {error}"
    return (
        "Lowered again, the model is right: the file was made from another model, other weights or"
        " other options.\ntry:  weights that do not change from call to call of the function"
        " (torch.manual_seed, or a checkpoint);\n      pteron export again"
    )


def _as_json(report: MethodVerification) -> dict[str, Any]:
    return {
        "outputs": [
            {"index": c.index, "error": c.error, "limit": c.limit} for c in report.comparisons
        ],
        "others": list(report.others),
        "skipped": dict(report.skipped),
        "random": sorted(report.random),
        "obstacle": report.obstacle,
    }
