"""The command `pteron` for the rules of exir/defs.bzl.

rule_main.py --model=PATH:FUNCTION --compiler=COMPILER.json --program=FILE COMMAND -- ARGUMENTS...

Uses that compiler and a private folder, and finds the model in the runfiles, with its data beside
it. Errors use workspace paths.
"""

import contextlib
import glob
import hashlib
import importlib.util
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

if importlib.util.find_spec("absl") is None:
    # A farm has the folders of wheels in the execution root, and leaves them out of the runfiles.
    sys.path += map(os.path.abspath, sorted(glob.glob("external/*/site-packages")))
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)

from absl import app, flags  # noqa: E402

_MODEL = flags.DEFINE_string("model", None, "The model, by its runfiles path.", required=True)
_COMPILER = flags.DEFINE_string("compiler", None, "third_party/compiler's file.", required=True)
_PROGRAM = flags.DEFINE_string("program", None, "The program file.", required=True)
_REPORT = flags.DEFINE_string("report", None, "Where the output goes, if not to the terminal.")

# Hints for a model that fails only in a build.
_HINTS = {
    "ModuleNotFoundError": "the library that has it among the deps of the target",
    "FileNotFoundError": "the file in the data of the target; the model finds it beside itself",
}


def main(argv: list[str]) -> int:
    command, *arguments = argv[1:]
    runfiles = Path(os.path.abspath(__file__)).parents[3]
    program = os.path.abspath(_PROGRAM.value)
    model = os.path.normpath(runfiles / "_main" / _MODEL.value)
    compiler = json.loads(Path(_COMPILER.value).read_text(encoding="utf-8"))
    if error := compiler.get("missing") or _other_compiler(compiler):
        print(error, file=sys.stderr)
        return 1
    errors, output = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory(prefix="pteron-") as scratch:
        _keep_to(scratch, os.path.abspath(Path(_COMPILER.value).parent / compiler["command"]))
        from pteron.command.main import NOT_RUN
        from pteron.command.main import main as pteron

        operands = [program, model] if command == "compare" else [model, f"--output={program}"]
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(output):
            code = pteron(["pteron", command, *operands, *arguments])
    said = [stream.getvalue() for stream in (errors, output)]
    for folder in (f"{runfiles}/_main/", f"{runfiles}/", f"{os.getcwd()}/"):
        said = [text.replace(folder, "") for text in said]
    sys.stderr.write(said[0])
    for error, hint in _HINTS.items():
        if error in said[0]:
            print(f"try:  {hint}", file=sys.stderr)
    if _REPORT.value:
        Path(_REPORT.value).write_text(said[1], encoding="utf-8")
    else:
        print(said[1], end="")
    if command == "compare" and code == NOT_RUN:
        print("SKIPPED: this machine does not run the program.", file=sys.stderr)
        return 0
    return code


def _other_compiler(compiler: dict[str, Any]) -> str:
    """What to say if a farm's worker has another compiler than the cache key says."""
    if "programs" not in compiler:  # it is an input
        return ""
    command = compiler["command"]
    path = Path(command)
    found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "no such file"
    wanted = compiler["programs"]["driver"]
    if wanted in (found, "unreadable"):
        return ""
    return (
        f"lowering needs the compiler of the machine that runs Bazel, {compiler['version']}:"
        f" {command} with sha256 {wanted}; found {found}.\n"
        "try:  workers with that machine's image, or --strategy=PteronProgram=local"
    )


def _keep_to(scratch: str, compiler: str) -> None:
    """Isolates the run in `scratch`, without user settings."""
    for variable in [name for name in os.environ if name.startswith(("XDG_", "TORCHINDUCTOR_"))]:
        del os.environ[variable]
    os.environ.update(
        CXX=compiler,
        HOME=scratch,
        PTERON_CACHE_MB="0",
        TMPDIR=scratch,
        TORCHINDUCTOR_CACHE_DIR=f"{scratch}/inductor",
        USER=os.environ.get("USER", "bazel"),
    )
    tempfile.tempdir = scratch


if __name__ == "__main__":
    app.run(main)
