"""Runs what depends on torch's release with a torch that is installed anywhere.

    tools/bazel run //tools/torch_release -- --python=/path/to/venv

See README.md.
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from absl import app, flags, logging

from tools.gpu.stage import Case, Outcome, run_case
from tools.torch_release.checks import CHECKS, LINEAR, Check

_PYTHON = flags.DEFINE_multi_string(
    "python", [""], "Virtual environment with torch, or its Python; empty: the build's torch."
)
_CHECKS = flags.DEFINE_list("checks", [check.name for check in CHECKS], "Which checks to run.")
_OUTPUT = flags.DEFINE_string("output", None, "Folder for logs; a temporary one unless given.")
_SECONDS = flags.DEFINE_float("check_seconds", 3600, "The longest one check may take.", 1)
_RUNNER = flags.DEFINE_string("runner", "", "The runner, as a path of this repository.")

#: What comes from the environment that is asked about.
_TORCH = ("nvidia", "torch", "triton")
#: What names the releases that lowering knows.
RELEASE = "backends/aoti/inductor/release.py"
#: Failures of a check that are shown; its log has all.
_SHOWN = 5


class UnusableEnvironment(Exception):
    """An environment can't run the checks; the text says what was found and what to try."""


def search_path(entries: Sequence[str], keep_torch: bool) -> str:
    """The PYTHONPATH of checks: of `entries` the wheels, with the build's torch or without."""
    root = Path(os.path.abspath(__file__)).parents[2]
    wheels = [entry for entry in entries if entry.endswith("/site-packages")]
    if not keep_torch:
        wheels = [w for w in wheels if not any(Path(w, name).exists() for name in _TORCH)]
    # As //tools/build:names.bzl says.
    return os.pathsep.join([f"{root.parent}/_pteron_py", str(root), *wheels])


def find_torch(python: str) -> str:
    """The version of an interpreter's torch, "2.14.1"; UnusableEnvironment if checks can't run."""
    script = "import sys; print('%d.%d' % sys.version_info[:2], flush=True)\n"
    script += "import torch; print(torch.__version__)"
    try:
        done = subprocess.run((python, "-c", script), capture_output=True, text=True, check=False)
    except OSError as error:
        raise UnusableEnvironment(f"{error}; name a virtual environment that has torch") from error
    version, *found = done.stdout.split() or [""]
    built = "{}.{}".format(*sys.version_info[:2])
    if version not in ("", built):
        raise UnusableEnvironment(
            f"it is Python {version} and the binding is built for {built}; build for that Python "
            "with --repo_env=PTERON_PYTHON=<path>"
        )
    if not found:
        last = "".join(done.stderr.strip().splitlines()[-1:])
        raise UnusableEnvironment(f"it can't import torch ({last}); install the release there")
    return found[0]


def run(python: str, checks: Sequence[Check], folder: Path, seconds: float) -> dict[str, Outcome]:
    """Runs checks; those that lower are skipped once a Linear does not.

    Args:
        python: the interpreter.
        checks: which ones, in this order.
        folder: where logs go, as <check>.log; it exists.
        seconds: the longest one may take.

    Returns:
        what came of each, by its name.
    """
    outcomes: dict[str, Outcome] = {}
    for check in checks:
        linear = outcomes.get(LINEAR.name)
        skip = "a Linear does not lower" if check.lowers and linear and linear.failed else ""
        report = "--junitxml=" if check.tests else ""
        case = Case(check.name, check.command(python), report, seconds, skip)
        logging.info("%s: %s%s", folder.name, check.name, skip and f" not run: {skip}")
        outcome = run_case(case, folder, seconds)
        assert outcome is not None  # no exit status of these means "not finished"
        outcomes[check.name] = outcome
    return outcomes


def table(results: Mapping[str, Mapping[str, Outcome]]) -> str:
    """Checks by releases, in Markdown."""
    names = list(dict.fromkeys(name for outcomes in results.values() for name in outcomes))
    rows = [["check", *results], ["---"] * (1 + len(results))]
    rows += [[name, *(_cell(outcomes[name]) for outcomes in results.values())] for name in names]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(outcome: Outcome) -> str:
    if not outcome.passed + outcome.failed:
        return "not run"
    parts = (("failed", outcome.failed), ("passed", outcome.passed), ("skipped", outcome.skipped))
    return ", ".join([f"{n} {what}" for what, n in parts if n] + [f"{outcome.seconds:.0f} s"])


def supported_releases(text: str) -> tuple[str, ...]:
    """The releases that a release.py names: importing it takes a torch that is one of them."""
    found = re.search(r"^SUPPORTED_RELEASES.*?=\s*(\(.*?\))", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    return tuple(ast.literal_eval(found[1]))


def next_steps(
    missing: str, checks: Sequence[Check], outcomes: Mapping[str, Outcome], folder: Path
) -> list[str]:
    """What to do about a release: a line for each check that failed, with what its log says.

    Args:
        missing: the release, "2.15", if lowering does not know it; else empty.
        checks: what ran.
        outcomes: what came of each.
        folder: where their logs are.
    """
    add = f'add "{missing}" to SUPPORTED_RELEASES in {RELEASE}'
    lines = []
    for check in checks:
        if not outcomes[check.name].failed:
            continue
        log = folder / f"{check.name}.log"
        text = log.read_text(encoding="utf-8", errors="replace").splitlines()
        said = [line for line in text if line.startswith(("FAILED ", "ERROR "))]
        said = said or _error(text)
        advice = check.advice
        if check.name == LINEAR.name and missing:
            advice += f"; then {add}, and run this again: it says what else the release needs"
        lines.append(f"* {check.name}: {advice}. {log}:")
        lines += [f"    {line[:300]}" for line in said[:_SHOWN]]
        lines += [f"    and {len(said) - _SHOWN} more"] if len(said) > _SHOWN else []
    return lines or [f"* all that ran passes{missing and f': {add}'}"]


def _error(text: Sequence[str]) -> list[str]:
    """The exception that ends a traceback, of one line or several; else the last line of all."""
    begins = [i for i, line in enumerate(text) if re.match(r"([a-z_]\w*\.)*[A-Z]\w+: ", line)]
    return [line for line in text[begins[-1] if begins else -1 :] if line.strip()]


def main(argv: Sequence[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"unexpected arguments: {' '.join(argv[1:])}")
    named = {check.name: check for check in CHECKS}
    if unknown := [name for name in _CHECKS.value if name not in named]:
        raise app.UsageError(f"--checks: no {', '.join(unknown)}; there are {', '.join(named)}")
    logging.set_verbosity(logging.INFO)
    checks = [named[name] for name in _CHECKS.value]
    started = Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    output = Path(started, _OUTPUT.value or tempfile.mkdtemp(prefix="torch_release_"))
    root = Path(os.path.abspath(__file__)).parents[2]
    os.chdir(root)
    # Packages of the user's home are out of sight; pytest's lines are long.
    os.environ |= {"RUNNER": _RUNNER.value, "PYTHONNOUSERSITE": "1", "COLUMNS": "300"}
    release = root.parent / "_pteron_py/pteron" / RELEASE
    supported = supported_releases(release.read_text(encoding="utf-8"))
    results: dict[str, dict[str, Outcome]] = {}
    steps: list[str] = []
    for python in _PYTHON.value:
        os.environ["PYTHONPATH"] = search_path(sys.path, keep_torch=not python)
        interpreter = str(started / python) if python else sys.executable
        if Path(interpreter).is_dir():
            interpreter += "/bin/python"
        try:
            found = find_torch(interpreter)
        except UnusableEnvironment as error:
            sys.exit(f"--python={python}: {error}.")
        name = found + (f" ({len(results) + 1})" if found in results else "")
        folder = output / name
        folder.mkdir(parents=True, exist_ok=True)
        results[name] = run(interpreter, checks, folder, _SECONDS.value)
        minor = ".".join(found.split(".")[:2])
        missing = "" if minor in supported else minor
        steps += [f"torch {name}:", *next_steps(missing, checks, results[name], folder), ""]
    print("\n".join(["", table(results), "", *steps]).rstrip())
    if any(outcome.failed for outcomes in results.values() for outcome in outcomes.values()):
        sys.exit(1)


if __name__ == "__main__":
    app.run(main)
