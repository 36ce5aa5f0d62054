"""Compiles the Python binding of a bundle for the Python that runs this.

Needs a C++ compiler (CXX, g++ if that is not set) and Python.h; nanobind comes with the bundle.
"""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

_OPTIONS = ("-std=c++17", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing")


def compiler_flags(tree: Path) -> list[str]:
    """Options to compile the binding's sources, and nanobind's, in `tree`."""
    folders = [
        tree,
        tree / "nanobind/include",
        tree / "nanobind/ext/robin_map/include",
        sysconfig.get_paths()["include"],
    ]
    return [*_OPTIONS, *(f"-I{folder}" for folder in folders)]


def compile_binding(tree: Path) -> Path:
    """Builds pteron/runtime/python/_native.so of `tree` against pteron/lib/libpteron_runtime.so.

    Raises:
        subprocess.CalledProcessError: the compiler failed; it has said why.
    """
    package = tree / "pteron/runtime/python"
    sources = sorted(package.glob("*.cpp"))
    if not sources:
        raise FileNotFoundError(f"{package} has no sources of the binding")
    sources.append(tree / "nanobind/src/nb_combined.cpp")
    compiler = os.environ.get("CXX", "g++")
    flags = compiler_flags(tree)
    library = package / "_native.so"
    with tempfile.TemporaryDirectory() as scratch:
        objects = [f"{scratch}/{source.stem}.o" for source in sources]

        def compile_one(source: Path, target: str) -> None:
            subprocess.run([compiler, *flags, "-c", str(source), "-o", target], check=True)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_one, sources, objects))
        partial = f"{scratch}/_native.so"
        link = ["-shared", *objects, f"-L{tree}/pteron/lib", "-lpteron_runtime"]
        subprocess.run([compiler, *link, "-Wl,-rpath,$ORIGIN/../../lib", "-o", partial], check=True)
        library.write_bytes(Path(partial).read_bytes())
    return library


if __name__ == "__main__":
    print(compile_binding(Path(__file__).resolve().parents[2]))
    sys.exit(0)
