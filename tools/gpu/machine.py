"""Properties of the machine that runs a bundle."""

import glob
import importlib.util
import os
import shutil
from pathlib import Path


def library_folders() -> list[str]:
    """Folders with cuBLAS or cuDNN: those of the wheels that torch uses, then the toolkit's."""
    candidates: list[str] = []
    package = importlib.util.find_spec("nvidia")
    for folder in (package.submodule_search_locations or ()) if package else ():
        candidates += sorted(glob.glob(f"{folder}/*/lib"))
    for root in (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"):
        candidates += [f"{root}/lib64", f"{root}/targets/x86_64-linux/lib"] if root else []
    candidates += ["/usr/lib/x86_64-linux-gnu", "/usr/lib64"]
    found = [
        folder
        for folder in candidates
        if any(glob.glob(f"{folder}/{name}") for name in ("libcublas.so.13", "libcudnn.so.9"))
    ]
    return list(dict.fromkeys(found))


def environment(tree: Path) -> dict[str, str]:
    """Variables for every command of a session over the unpacked bundle `tree`."""
    path = [str(tree), *filter(None, [os.environ.get("PYTHONPATH")])]
    libraries = [*filter(None, [os.environ.get("PTERON_CUDA_LIBRARY_PATH")]), *library_folders()]
    return {
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PTERON_CUDA_LIBRARY_PATH": ":".join(libraries),
        "RUNNER": str(tree / "bin" / "runner_cuda"),
        # Location of the repository's files for tests, as set by Bazel.
        "TEST_SRCDIR": str(tree),
        "TEST_WORKSPACE": "pteron",
    }


def program(name: str) -> str:
    """The path of an installed program; "" if there is none."""
    if found := shutil.which(name):
        return found
    for folder in ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"):
        if os.access(f"{folder}/{name}", os.X_OK):
            return f"{folder}/{name}"
    return ""


def gpus() -> int:
    """How many GPUs there are."""
    return len(glob.glob("/dev/nvidia[0-9]*"))


def has_module(name: str) -> bool:
    """Whether the Python that runs this can import `name`."""
    return importlib.util.find_spec(name) is not None
