"""Compiles the Python binding of a bundle for the Python that runs this.

Needs a C++ compiler (CXX, g++ if that is not set) and Python.h; pybind11 comes with the bundle.
"""

import os
import subprocess
import sysconfig
from pathlib import Path

_OPTIONS = ("-std=c++17", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-shared")


def compile_binding(tree: Path) -> Path:
    """Builds pteron/runtime/python/_native.so of `tree` against pteron/lib/libpteron.so.

    Raises:
        subprocess.CalledProcessError: the compiler failed; it has said why.
    """
    package = tree / "pteron/runtime/python"
    sources = sorted(package.glob("*.cpp"))
    if not sources:
        raise FileNotFoundError(f"{package} has no sources of the binding")
    library = package / "_native.so"
    partial = package / "_native.so.partial"
    folders = [tree, tree / "pybind11/include", sysconfig.get_paths()["include"]]
    command = [os.environ.get("CXX", "g++"), *_OPTIONS, *(f"-I{folder}" for folder in folders)]
    command += [*map(str, sources), f"-L{tree}/pteron/lib", "-lpteron"]
    subprocess.run([*command, "-Wl,-rpath,$ORIGIN/../../lib", "-o", partial], check=True)
    os.replace(partial, library)
    return library


if __name__ == "__main__":
    print(compile_binding(Path(__file__).resolve().parents[2]))
