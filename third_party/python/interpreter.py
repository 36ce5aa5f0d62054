"""Looks at a Python interpreter, and makes the private one that the build runs.

    python interpreter.py probe
    python interpreter.py make <parent directory>

`probe` prints facts as JSON. `make` prints the path of a virtual environment under the parent
directory, made on the first call. It has no packages at all, so that nothing installed on the
machine reaches a Python target by accident.
"""

import hashlib
import json
import os
import shutil
import sys
import sysconfig
import tempfile


def probe() -> dict[str, object]:
    """The facts that the build needs, about the interpreter behind any virtual environment."""
    include = sysconfig.get_paths()["include"]
    try:
        import pip

        pip_version: str | None = pip.__version__
    except ImportError:
        pip_version = None
    return {
        "executable": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
        "include": include,
        "has_headers": os.path.isfile(os.path.join(include, "Python.h")),
        "pip": pip_version,
        "implementation": sys.implementation.name,
        "is_free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "version": list(sys.version_info[:3]),
        "is_virtual": sys.prefix != getattr(sys, "base_prefix", sys.prefix),
    }


def make(parent: str) -> str:
    """Makes the virtual environment in one step, or finds the one that is there already.

    Returns:
        its path: named after the interpreter, so that another one gets another directory.
    """
    base = os.path.realpath(sys.executable)
    key = hashlib.sha256(base.encode()).hexdigest()[:12]
    directory = os.path.join(parent, "%d.%d.%d-%s" % (sys.version_info[:3] + (key,)))
    if not _is_made(directory):
        os.makedirs(parent, exist_ok=True)
        fresh = tempfile.mkdtemp(suffix=".partial", dir=parent)
        try:
            _fill(fresh, base)
            _rename(fresh, directory)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return directory


def _fill(directory: str, base: str) -> None:
    os.chmod(directory, 0o755)
    os.mkdir(os.path.join(directory, "bin"))
    os.symlink(base, os.path.join(directory, "bin", "python3"))
    with open(os.path.join(directory, "pyvenv.cfg"), "w", encoding="utf-8") as config:
        config.write("home = %s\n" % os.path.dirname(base))
        config.write("include-system-site-packages = false\n")


def _rename(fresh: str, directory: str) -> None:
    try:
        os.rename(fresh, directory)
    except OSError:
        if not _is_made(directory):  # Else another process was faster.
            raise


def _is_made(directory: str) -> bool:
    return os.path.exists(os.path.join(directory, "bin", "python3"))


if __name__ == "__main__":
    if sys.argv[1:] == ["probe"]:
        json.dump(probe(), sys.stdout)
    elif len(sys.argv) == 3 and sys.argv[1] == "make":
        print(make(sys.argv[2]))
    else:
        sys.exit(__doc__)
