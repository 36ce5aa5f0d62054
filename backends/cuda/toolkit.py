"""Finds the CUDA headers for lowering. Triton compiles the kernels."""

import functools
import hashlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

_NEEDED = (
    *("cuda.h", "cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h"),
    # In a wheel of its own (nvidia-cuda-crt), which torch does not bring.
    "crt/host_defines.h",
)


def _candidates() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "include"
    # The headers installed with torch, if its CUDA comes from wheels.
    package = importlib.util.find_spec("nvidia")
    for folder in (package and package.submodule_search_locations) or ():
        yield from sorted(Path(folder).glob("cu*/include"), reverse=True)
        yield Path(folder) / "cuda_runtime" / "include"
    yield Path("/usr/local/cuda/include")


@functools.cache
def include_folders() -> tuple[str, ...]:
    """Include folders of the CUDA headers.

    Raises:
        FileNotFoundError: no folder has all of them; lists the searched folders.
    """
    looked = []
    for folder in _candidates():
        looked.append(str(folder))
        if all((folder / name).is_file() for name in _NEEDED):
            extra = folder / "cccl"
            return (str(folder), str(extra)) if extra.is_dir() else (str(folder),)
    raise FileNotFoundError(
        f"lowering for CUDA needs the toolkit's headers ({', '.join(_NEEDED)}). Install the CUDA "
        f"toolkit, or its headers by pip (nvidia-cuda-crt and nvidia-cuda-runtime), or set "
        f"CUDA_HOME. Looked in: {', '.join(looked)}"
    )


@functools.cache
def headers_digest() -> str:
    """SHA-256 of the headers that decide what others declare; errors as of `include_folders`."""
    folder = Path(include_folders()[0])
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in _NEEDED)).hexdigest()
