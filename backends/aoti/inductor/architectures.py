"""Kernels for more GPU architectures than the one that tunes them.

Triton compiles the configuration that won here for the other architectures as well, and
`fatbinary`, of the CUDA toolkit, joins the machine codes to one fat binary, of which the driver
takes the part that fits.
"""

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pteron.backends.aoti.inductor.patches import wrapped

#: Where further machine code of a kernel is kept in Inductor's table of kernels.
_KEY = "pteron_cubins"


class UnsupportedArchitecture(RuntimeError):
    """A kernel cannot be compiled for an architecture that was asked for."""


def capability(architecture: str) -> int:
    """sm_90 as Triton counts it: 90."""
    return int(re.fullmatch(r"sm_(\d+)", architecture)[1])  # type: ignore[index]


def fatbinary() -> str:
    """The toolkit's program; FileNotFoundError says where it was looked for."""
    folders = [f"{os.environ[v]}/bin" for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
    package = importlib.util.find_spec("nvidia")
    for packages in (package and package.submodule_search_locations) or ():
        folders += [str(folder) for folder in sorted(Path(packages).glob("cu*/bin"))]
    folders += [*os.environ.get("PATH", "").split(os.pathsep), "/usr/local/cuda/bin"]
    if found := shutil.which("fatbinary", path=os.pathsep.join(folders)):
        return found
    raise FileNotFoundError(
        "compiling for several GPU architectures needs the program fatbinary of the CUDA toolkit. "
        f"Install the toolkit or set CUDA_HOME. Looked in: {', '.join(filter(None, folders))}"
    )


@contextlib.contextmanager
def also_compiled_for(architectures: Sequence[str]) -> Iterator[None]:
    """Inside, every kernel that Inductor keeps is compiled for `architectures`, too."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    problems: list[str] = []

    def keep_all(keep: Callable[..., None], self: Any, stream: Any, launcher: Any) -> None:
        keep(self, stream, launcher)
        problems.extend(_compile_more(self, launcher, architectures))

    if not architectures:
        yield
        return
    fatbinary()
    with wrapped(CachingAutotuner, "save_gpu_kernel", keep_all):
        yield
    if problems:
        raise UnsupportedArchitecture(
            "kernels as they were chosen on this GPU do not work on all architectures:\n  "
            + "\n  ".join(dict.fromkeys(problems))
            + "\nLeave these architectures out, or lower on such a GPU."
        )


def _compile_more(kernel: Any, launcher: Any, architectures: Sequence[str]) -> list[str]:
    """Adds the machine code for `architectures` to the kernel's entry in Inductor's table; returns
    what is wrong."""
    import triton
    from torch._inductor.codecache import CudaKernelParamCache
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    name = kernel.inductor_meta["kernel_name"]
    entry = CudaKernelParamCache.cache[name]
    if kernel.fn.fn is None:  # it was compiled by a worker process
        kernel.fn = kernel._reload_kernel().fn
    meta = kernel._create_compile_meta(launcher.config)
    source = ASTSource(kernel.fn, meta["signature"], meta["constants"], meta["configs"][0])
    options = kernel._create_compile_options(launcher.config, meta)
    cubins: dict[str, bytes] = {}
    problems = []
    for architecture in architectures:
        target = GPUTarget("cuda", capability(architecture), 32)
        try:
            binary = triton.compile(source, target=target, options=options)
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            problems.append(f"{architecture}: {name} ({launcher.config}) fails: {reason}")
            continue
        metadata = binary.metadata
        # The launch is compiled into the host code once, for all architectures.
        if metadata.num_warps != entry["num_warps"] or (
            getattr(metadata, "global_scratch_size", 0) or 0
        ) != (entry["global_scratch"] or 0):
            problems.append(
                f"{architecture}: {name} is launched differently, with {metadata.num_warps} warps "
                f"instead of {entry['num_warps']} or other scratch memory"
            )
            continue
        entry["shared_mem"] = max(entry["shared_mem"], metadata.shared)
        cubins[architecture] = binary.asm["cubin"]
    entry[_KEY] = cubins
    return problems


def machine_code(entry: Mapping[str, Any], cubin: bytes, here: str) -> bytes:
    """What the shared object embeds for a kernel: `cubin`, for the architecture `here`, or that
    joined with the code for the further architectures that `entry` of Inductor's table holds."""
    others = entry.get(_KEY)
    return join({here: cubin, **others}) if others else cubin


def join(cubins: Mapping[str, bytes]) -> bytes:
    """One fat binary of the machine codes by architecture."""
    with tempfile.TemporaryDirectory() as folder:
        command = [fatbinary(), "-64", f"--create={folder}/joined.fatbin"]
        for architecture, code in cubins.items():
            number = capability(architecture)
            # From 9.0 on Triton compiles for the one architecture: sm_90a.
            label = f"{number}a" if number >= 90 else str(number)
            Path(folder, f"{architecture}.cubin").write_bytes(code)
            command.append(f"--image3=kind=elf,sm={label},file={folder}/{architecture}.cubin")
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"fatbinary failed: {done.stderr.strip() or done.stdout.strip()}")
        return Path(folder, "joined.fatbin").read_bytes()
