"""Compiles generated C++ to a shared object.

Unlike Inductor's own compile step, it has flags per file, parallel compilation and an object cache;
`decisions/2026-11-20-own-compile-step.md` has measurements. A shared object consists of

* the model class with the entry points, at `_ONCE`, since it is long and runs once per call;
* the kernels, at -O3 for the target's instruction set, in files of bounded size;
* a support file: the size of the weights, embedded device code, a `__cxa_thread_atexit` that
  registers nothing, without which the first failing thread would keep the shared object loaded, and
  an `operator new` that may fail in parallel regions.

Only the `AOTInductor*` entry points are exported, no symbol is STB_GNU_UNIQUE, the symbol table is
stripped, and no path of the build machine is included: equal sources give equal bytes.
"""

import dataclasses
import functools
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from pteron.backends.aoti import elf, workers
from pteron.backends.aoti.inductor import GeneratedCode, short_headers, standard_headers
from pteron.backends.aoti.inductor.kernel_text import KERNEL_START
from pteron.backends.aoti.inductor.release import SUPPORTED_RELEASES
from pteron.backends.aoti.object_cache import ObjectCache, default_cache, digest
from pteron.backends.aoti.source_headers import (
    CUDA_HEADER,
    ENTRY_POINTS,
    KERNEL_HEADER,
    MODEL_HEADER,
)

#: The platform of this machine, as in metadata.
HOST_PLATFORM = f"{sys.platform}-{platform.machine()}"


class ToolchainError(RuntimeError):
    """The compiler is missing or failed on generated code."""


@dataclasses.dataclass(frozen=True)
class Machine:
    """Compiler flags for the target of a shared object.

    Attributes:
        march: flags of kernels for an instruction set, for example ("-march=x86-64-v3",).
        defines: macros of all sources, "NAME" or "NAME=VALUE".
        include_folders: in addition to torch's.
        libraries: to link, by name ("cuda").
        wide_vectors: the code uses 512-bit registers.
        symbols: keep the symbol table.
        step: the build step; `BuildStep` by default, for this machine's platform.
    """

    march: tuple[str, ...]
    defines: tuple[str, ...] = ()
    include_folders: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    wide_vectors: bool = False
    symbols: bool = False
    step: "type[BuildStep] | None" = None


@dataclasses.dataclass(frozen=True)
class Compiler:
    """A C++ compiler: its command, whether it is clang, and its identity."""

    command: tuple[str, ...]
    is_clang: bool
    identity: str


# Inductor's flags: strict floating point, except that comparisons do not trap.
_FLOATING_POINT = (
    "-fno-trapping-math",
    "-fmath-errno",
    "-ffp-contract=off",
)
#: GCC's optimizations of long code that runs once per call: those of -O1 that it takes the time of
#: a call from, in three fifths of its time (decisions/2026-11-26-fewer-compilations.md).
_ONCE = (
    *("-Og", "-ftree-sra", "-ftree-dse", "-fif-conversion", "-fssa-phiopt"),
    "-finline-functions-called-once",
)
_DEFINES = (
    "TORCH_INDUCTOR_CPP_WRAPPER",
    "STANDALONE_TORCH_HEADER",
    "C10_USING_CUSTOM_GENERATED_MACROS",
    "USE_MMAP_EXTERNAL",
    "NDEBUG",
)
_EXPORTS = "{ global: AOTInductor*; pteron_set_tracing; local: *; };\n"
#: Headers take 0.8 to 1.0 CPU seconds for each file, however small it is.
_KERNEL_FILE_BYTES = 128 << 10
#: Environment variables by which compilers choose headers, libraries and parts of themselves.
_ENVIRONMENT = re.compile(
    r"(C|CPLUS|OBJC|OBJCPLUS)(PATH|_INCLUDE_PATH)|COMPILER_PATH|LIBRARY_PATH|GCC_.*|CCC_.*|"
    r"CLANG_.*|SOURCE_DATE_EPOCH|SDKROOT|DEVELOPER_DIR|MACOSX_DEPLOYMENT_TARGET"
)


def _of_cxx(name: re.Match[str]) -> str:
    """The C++ compiler of a C compiler."""
    return name[1] + {"gcc": "g++", "clang": "clang++", "cc": "c++"}[name[2]]


@functools.cache
def find_compiler() -> Compiler:
    """`$CXX` (of a C compiler, the C++ compiler), else the first of g++, c++, clang++ on `PATH`."""
    chosen = os.environ.get("CXX", "").strip()
    # Some libraries set CXX to a C compiler, which does not link the C++ library.
    plus = re.sub(r"(^|[/\s-])(gcc|clang|cc)(?=(-[\d.]+)?(\s|$))", _of_cxx, chosen)
    candidates = [plus, chosen] if chosen else ["g++", "c++", "clang++"]
    for candidate in candidates:
        command = shlex.split(candidate)
        program = shutil.which(command[0])
        if program is None:
            continue
        version = subprocess.run(
            [program, *command[1:], "--version"], capture_output=True, text=True, check=False
        )
        if version.returncode == 0:
            first_line = version.stdout.partition("\n")[0]
            status = os.stat(os.path.realpath(program))
            identity = f"{program} {first_line} {status.st_size} {status.st_mtime_ns}"
            return Compiler((program, *command[1:]), "clang" in version.stdout, identity)
    wanted = f"$CXX is {chosen!r}" if chosen else "none of g++, c++, clang++ is on PATH"
    raise ToolchainError(
        f"lowering needs a C++20 compiler and {wanted}. Install one (for example the package "
        "g++), or set CXX to its command. Running a lowered program needs none."
    )


def build(
    code: GeneratedCode,
    machine: Machine,
    *,
    device: str = "cpu",
    weights_bytes: int = 0,
    embedded: Mapping[str, bytes] | None = None,
    cache: ObjectCache | None = None,
) -> bytes:
    """Compiles and links `code`; returns the shared object's bytes.

    Args:
        code: from `inductor.generate`.
        machine: the target's flags.
        device: selects the header of the model class.
        weights_bytes: size of the constants, which the container reports.
        embedded: symbol stem to bytes, available to the code as `__<stem>_start` and
            `__<stem>_end`.
        cache: cache of objects; the user's by default.

    Raises:
        ToolchainError: no compiler, or it failed; includes its messages and the command.
    """
    step = build_step(machine, device, cache)
    objects = step.compile_all(code)
    with tempfile.TemporaryDirectory(prefix="pteron-link-") as folder:
        support = _write_support(Path(folder), weights_bytes, embedded or {})
        return step.link(Path(folder), objects, support)


def build_step(machine: Machine, device: str, cache: ObjectCache | None = None) -> "BuildStep":
    """The build step for `machine`.

    ToolchainError: there is no compiler for it.
    """
    step = machine.step or BuildStep
    return step(step.find_compiler(), machine, device, cache or shared_cache())


def imported_symbols(shared_object: bytes, machine: Machine) -> tuple[str, ...]:
    """Sorted original names of the runtime functions that a shared object for `machine` imports."""
    return (machine.step or BuildStep).imported_symbols(shared_object)


@functools.cache
def shared_cache() -> ObjectCache:
    """The user's cache."""
    return default_cache()


def _parallelism() -> int:
    return max(1, len(os.sched_getaffinity(0)))


def split_kernels(text: str) -> list[str]:
    """Splits generated kernels, each of which starts with its own include, into files of bounded
    size. The split depends only on the text, so equal text gives an equal shared object on any
    machine."""
    files: list[str] = []
    for part in re.split(f"(?={re.escape(KERNEL_START)})", text):
        if files and len(files[-1]) + len(part) <= _KERNEL_FILE_BYTES:
            files[-1] += part
        elif part.strip():
            files.append(part)
    return files


@dataclasses.dataclass(frozen=True)
class Source:
    """One translation unit: its first header, text and flags; what to include before the header,
    unless it does not compile with it."""

    header: str
    text: str
    flags: tuple[str, ...]
    short: str = ""


@dataclasses.dataclass(frozen=True)
class BuildStep:
    """The steps of `build` for one compiler, machine and cache."""

    compiler: Compiler
    target: Machine
    device: str
    cache: ObjectCache

    @staticmethod
    def find_compiler() -> Compiler:
        return find_compiler()

    @staticmethod
    def imported_symbols(shared_object: bytes) -> tuple[str, ...]:
        return elf.undefined_symbols(shared_object)

    def model(self, text: str) -> Source:
        header = CUDA_HEADER if self.device == "cuda" else ""
        header += standard_headers(self.device) + MODEL_HEADER.format(device=self.device)
        return Source(header, text + ENTRY_POINTS, ("-O1",) if self.compiler.is_clang else _ONCE)

    def kernels(self, text: str) -> Source:
        short = "" if self.compiler.is_clang else short_headers(text)
        return Source(KERNEL_HEADER, text, self._kernel_flags(), short)

    def _kernel_flags(self) -> tuple[str, ...]:
        flags = ("-O3", *self.target.march, "-fopenmp")
        if not self.compiler.is_clang:
            flags += ("-fno-tree-loop-vectorize", "-fexcess-precision=fast")
            if self.target.wide_vectors:
                # Otherwise GCC spills a GEMM's accumulators: 2.8 times slower.
                flags += ("-fno-early-inlining",)
        return flags

    @functools.cached_property
    def common_flags(self) -> tuple[str, ...]:
        # torch's resolved path, since flags are part of cache keys.
        include = str(Path(torch.__file__).resolve().parent / "include")
        # A fifth of a header's time less than C++20, for which later releases may be written.
        standard = "17" if torch.__version__.startswith(SUPPORTED_RELEASES) else "20"
        flags = [f"-std=c++{standard}", "-fPIC", "-w", *_FLOATING_POINT]
        if not self.compiler.is_clang:
            flags.append("-fno-gnu-unique")
        flags += [f"-D{name}" for name in (*_DEFINES, *self.target.defines)]
        flags += [f"-fmacro-prefix-map={include}=torch", f"-I{include}"]
        flags += [f"-I{folder}" for folder in self.target.include_folders]
        return tuple(flags)

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables for the compiler, in addition to this process's."""
        return {}

    def settings(self) -> str:
        """A digest of all that objects and shared objects depend on besides generated code."""
        return digest(
            self._key("settings", source) for source in (self.model(""), self.kernels(""))
        )

    def _key(self, kind: str, source: Source) -> str:
        build = f"{torch.__version__} {torch.version.git_version}"
        environment = {**os.environ, **self.environment}
        return digest(
            (
                kind,
                build,
                self.compiler.identity,
                *(
                    f"{x}={environment[x]}"
                    for x in sorted(environment)
                    if _ENVIRONMENT.fullmatch(x)
                ),
                *self.common_flags,
                *source.flags,
                source.short,
                source.header,
                source.text,
            )
        )

    def compile_all(self, code: GeneratedCode) -> list[bytes]:
        """The objects of a model and of what it needs, in the order in which they are linked."""
        kernels = map(self.kernels, split_kernels(code.kernels))
        with workers.Workers(_parallelism()) as pool:
            # The model takes longest, so it starts first.
            return list(pool.map(self.compile, [self.model(code.model), *kernels]))

    def compile(self, source: Source) -> bytes:
        """The object of `source`."""

        def compile_object(path: Path) -> None:
            # The text is piped, so that no file name gets into the object. Zig writes it to a file,
            # so a line says how it is called.
            arguments = [*self.common_flags, *source.flags, "-x", "c++", "-c", "-", "-o", str(path)]
            text = f'{source.header}#line 1 "<stdin>"\n{source.text}'
            try:
                self._run(arguments, source.short + text)
            except ToolchainError:
                if not source.short:
                    raise
                self._run(arguments, text)

        key = self._key("object", source)
        return self.cache.get(key, ".o", compile_object, workers.unfinished).read_bytes()

    def link(self, folder: Path, objects: Sequence[bytes], support: Path) -> bytes:
        """Links a shared object that exports only the container's entry points."""
        names = []
        for index, data in enumerate(objects):
            names.append(f"{index}.o")
            (folder / names[-1]).write_bytes(data)
        (folder / "exports.map").write_text(_EXPORTS)
        self._run(
            [
                *("-shared", "-fPIC", *self._openmp_library(), "-w", "-O1"),
                *names,
                support.name,
                *("-Wl,--version-script=exports.map", "-Wl,--as-needed"),
                *(() if self.target.symbols else ("-Wl,--strip-all",)),
                *("-Wl,--build-id=none", "-Wl,--gc-sections", "-Wl,-z,relro", "-Wl,-z,noexecstack"),
                *(f"-l{library}" for library in self.target.libraries),
                *("-o", "model.so"),
            ],
            folder=folder,
        )
        try:
            return elf.checked((folder / "model.so").read_bytes())
        except ValueError as error:
            raise ToolchainError(f"{self.compiler.command[0]}: {error}") from error

    def _openmp_library(self) -> tuple[str, ...]:
        """None for GCC on the CPU, whose runtime implements GCC's OpenMP functions. Clang calls
        another library, and other devices' runtimes have none."""
        return () if self.device == "cpu" and not self.compiler.is_clang else ("-fopenmp",)

    def _run(
        self, arguments: Sequence[str], text: str | None = None, folder: Path | None = None
    ) -> None:
        command = [*self.compiler.command, *arguments]
        done = workers.run(
            command,
            text=text,
            folder=folder,
            environment={**os.environ, **self.environment},
            output=command[command.index("-o") + 1],
        )
        if done.returncode != 0:
            raise ToolchainError(
                f"{self.compiler.command[0]} failed on generated code (exit {done.returncode}).\n"
                f"{done.stderr.strip()[:4000]}\ncommand: {shlex.join(command)}"
            )


# What it throws would end the process in a parallel region; the check leaves the region.
_OPERATOR_NEW = """\
#ifdef __ELF__
#include <cstdlib>
#include <new>
extern "C" void aoti_torch_check(bool, const char*, const char*, unsigned, const char*);
void* operator new(std::size_t nbytes) {
  static thread_local bool is_in_here;  // by a C++ runtime that is linked in
  void* data = nullptr;
  if (is_in_here) {
    data = std::malloc(nbytes ? nbytes : 1);
  } else {
    is_in_here = true;
    data = operator new(nbytes, std::nothrow);
    is_in_here = false;
  }
  if (data) return data;
  aoti_torch_check(false, "operator new", "", 0, "std::bad_alloc");
  __builtin_unreachable();
}
void* operator new[](std::size_t nbytes) { return operator new(nbytes); }
#endif"""


def _write_support(folder: Path, weights_bytes: int, embedded: Mapping[str, bytes]) -> Path:
    """The support file (see the module's docstring)."""
    lines = [
        'extern "C" {',
        '__attribute__((visibility("hidden"))) int __cxa_thread_atexit(void (*)(void*), void*,',
        "                                                              void*) { return 0; }",
        "extern const unsigned long long _binary_constants_bin_start[2];",
        "extern const unsigned long long _binary_constants_bin_end[1];",
        f"const unsigned long long _binary_constants_bin_start[2] = {{{weights_bytes}ull, 0}};",
        "const unsigned long long _binary_constants_bin_end[1] = {0};",
        "}",
        _OPERATOR_NEW,
    ]
    for index, (stem, data) in enumerate(sorted(embedded.items())):
        (folder / f"{index}.bin").write_bytes(data)
        lines.append(
            f'__asm__(".section .rodata\\n.balign 64\\n.global __{stem}_start\\n'
            f'__{stem}_start:\\n.incbin \\"{index}.bin\\"\\n.global __{stem}_end\\n'
            f'__{stem}_end:\\n.byte 0\\n.previous\\n");'
        )
    path = folder / "support.cpp"
    path.write_text("\n".join(lines) + "\n")
    return path
