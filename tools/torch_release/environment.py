"""An environment that has torch, and what of the build it is given to run tests."""

import dataclasses
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

_PROBE = """
import importlib.metadata, json, sys
names = [found.metadata["Name"] for found in importlib.metadata.distributions()]
print(json.dumps({"python": sys.version_info[:2], "names": names}))
"""


class UnusableEnvironment(Exception):
    """An environment can't run the checks; the text says what was found and what to try."""


@dataclasses.dataclass(frozen=True)
class Environment:
    """A Python with the torch that is asked about.

    Attributes:
        python: the interpreter.
        release: the version of its torch, "2.14.1".
        path: folders that its modules are looked for in, before its own.
    """

    python: str
    release: str
    path: tuple[str, ...]

    def command(self, command: Iterable[str]) -> tuple[str, ...]:
        """`command` with those folders, without packages of the user's home, its lines long."""
        path = f"PYTHONPATH={os.pathsep.join(self.path)}"
        return ("env", path, "PYTHONNOUSERSITE=1", "COLUMNS=300", *command)


def find(python: str, sources: Sequence[str], wheels: Sequence[str]) -> Environment:
    """Looks at `python`, an interpreter or a virtual environment.

    Args:
        python: the path of either; empty for the interpreter of this process with the torch of
            `wheels`.
        sources: folders of the modules that are checked, and of their tests.
        wheels: folders of the build's wheels. An environment gets those that it has not.

    Raises:
        UnusableEnvironment: it does not run, is another Python than the build's, or has no torch.
    """
    wheel_names = {path: _names(path) for path in wheels}
    if not python:
        names: set[str] = set()
        interpreter = sys.executable
    else:
        interpreter = f"{python}/bin/python" if Path(python).is_dir() else python
        names = _probe(interpreter)
    kept = [path for path in wheels if not wheel_names[path] or wheel_names[path] - names]
    environment = Environment(interpreter, "", (*sources, *kept))
    script = (interpreter, "-c", "import torch; print(torch.__version__)")
    done = subprocess.run(environment.command(script), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        raise UnusableEnvironment(f"{interpreter} can't import torch: {''.join(last)}")
    return dataclasses.replace(environment, release=done.stdout.strip())


def _probe(interpreter: str) -> set[str]:
    """The names of what is installed for an interpreter of the build's version, with torch."""
    try:
        done = subprocess.run(
            (interpreter, "-I", "-c", _PROBE), capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnusableEnvironment(
            f"{interpreter} does not run ({error}). Name a virtual environment that has torch, or "
            "its bin/python."
        ) from error
    facts = json.loads(done.stdout)
    if facts["python"] != list(sys.version_info[:2]):
        raise UnusableEnvironment(
            "{} is Python {}.{}; the binding is built for {}.{}. Build for that Python with "
            "--repo_env=PTERON_PYTHON=<path>.".format(
                interpreter, *facts["python"], *sys.version_info[:2]
            )
        )
    names = {_normal(name) for name in facts["names"] if name}
    if "torch" not in names:
        raise UnusableEnvironment(f"{interpreter} has no torch; install the release there.")
    return names


def _names(folder: str) -> set[str]:
    """The packages that lie in a folder."""
    return {
        _normal(found.metadata["Name"]) for found in importlib.metadata.distributions(path=[folder])
    }


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
