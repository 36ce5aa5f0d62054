"""Shows the contents of a program file; needs neither torch nor the target device.

    pteron inspect model.pte
    pteron inspect model.pte --html=report.html
    pteron inspect model.pte --advisories

Methods with their inputs, outputs, state and memory; delegates with their options, instruction sets
or architectures, variants and digests; kernels; sizes of code and weights. The page has also the
graph of operators and a picture of planned memory; it is one file and needs no network.
--advisories lists what is known of bugs in the version of pteron that made the program's code.
"""

import json
import re
from pathlib import Path
from typing import Any

from pteron.command import program_file
from pteron.command.usage import UsageError, command_flags, only
from pteron.runtime import MethodMeta, Program, Runtime, ScalarMeta, TensorInfo

FLAGS = command_flags()
program_file.define_flags(FLAGS)
FLAGS.boolean("advisories", False, "List known bugs of the code, and nothing else.")
FLAGS.string("html", None, "Write a page to this file instead.")
FLAGS.string("trace", None, "A Chrome trace of the program (JSON), for the page.")
FLAGS.string("check", None, "What `pteron compare --json` printed, for the page.")


def run(positional: list[str]) -> bool:
    (name,) = only(positional, "model.pte")
    if FLAGS.html is None and (FLAGS.trace or FLAGS.check):
        raise UsageError("--trace and --check are shown on a page; expected --html=report.html")
    if FLAGS.html is not None and Path(FLAGS.html).suffix not in (".html", ".htm"):
        raise UsageError(f"--html: found {FLAGS.html!r}; expected a name that ends in .html")
    files = program_file.files_of(name, FLAGS.data)
    program = program_file.load(name, FLAGS.data)
    if FLAGS.html is not None:
        from pteron.command import html_report

        html_report.write(Path(FLAGS.html), program, files[0], FLAGS.trace, FLAGS.check)
        return True
    if FLAGS.advisories:
        found = _advisories(program)
        print(json.dumps(found, indent=2) if FLAGS.json else "\n".join(found or ["none known"]))
        return True
    if not FLAGS.json:
        print(program.describe(), end="")
        return True
    report = {
        "files": {str(file): file.stat().st_size for file in files},
        "methods": {name: _method(program.metadata(name)) for name in sorted(program.method_names)},
        "description": program.describe(),
    }
    print(json.dumps(report, indent=2))
    return True


def _advisories(program: Program) -> list[str]:
    found = re.findall(r"^ +fault +(.*)$", program.describe(), re.M)
    backends = {
        name for method in program.method_names for name in program.metadata(method).backends()
    }
    backends -= set(Runtime.get().backend_registry.registered_backend_names)
    found += [f"not known of {name}, which is not installed here" for name in sorted(backends)]
    return list(dict.fromkeys(found))


def _method(meta: MethodMeta) -> dict[str, Any]:
    return {
        "inputs": [_value(meta.input_meta(i)) for i in range(meta.num_inputs())],
        "outputs": [_value(meta.output_meta(i)) for i in range(meta.num_outputs())],
        "state": [_value(meta.attribute_tensor_meta(i)) for i in range(meta.num_attributes())],
        "delegates": meta.backends(),
        "kernels": meta.operators(),
        "planned_nbytes": meta.planned_nbytes(),
    }


def _value(meta: TensorInfo | ScalarMeta) -> dict[str, Any]:
    if isinstance(meta, ScalarMeta):
        return {"kind": meta.kind, "value": meta.value, "symbolic": meta.symbolic}
    return {
        "name": meta.name(),
        "dtype": meta.dtype().name,
        "sizes": meta.sizes(),
        "is_static": meta.is_static(),
        "nbytes": meta.nbytes(),
    }
