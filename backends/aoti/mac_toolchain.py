"""Builds shared objects for macOS on arm64, on any machine.

On a Mac uses its clang; elsewhere that of the package `ziglang`, which includes macOS's headers,
stubs of libSystem and a linker that signs (ad hoc; arm64 runs no unsigned code). Its C++ library is
not linked: C++ symbols bind to the Mac's libc++, and the headers are restricted to the oldest
supported macOS.

A Mac verifies a signature of all bytes, so symbols cannot be renamed at load: the
runtime's private names (shims/private_names.h) are in it from the start.
"""

import dataclasses
import functools
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pteron.backends.aoti import macho, toolchain
from pteron.backends.aoti.ops import shim_list
from pteron.backends.aoti.toolchain import BuildStep, Compiler, Source, ToolchainError

#: The first macOS whose Metal has bfloat.
_OLDEST_MACOS = "14.0"
_PREFIX, _PRIVATE_PREFIX = "aoti_torch_", "ptrn_torch_"
# Prefixes of libc++'s symbols, except those in libSystem.
_CPP_PREFIXES = ("_Z", "__cxa_", "__gxx_")
_OF_LIBSYSTEM = ("__cxa_atexit",)
_LIBCPP = """--- !tapi-tbd
tbd-version: 4
targets: [ arm64-macos ]
install-name: '/usr/lib/libc++.1.dylib'
exports:
  - targets: [ arm64-macos ]
    symbols: [ {} ]
...
"""


@functools.cache
def find_compiler() -> Compiler:
    """On a Mac the system's compiler, elsewhere that of `ziglang`."""
    if sys.platform == "darwin":
        found = toolchain.find_compiler()
        command = (*found.command, "-target", f"arm64-apple-macos{_OLDEST_MACOS}")
        return Compiler(command, found.is_clang, found.identity)
    package = importlib.util.find_spec("ziglang")
    if package is None or package.origin is None:
        raise ToolchainError(
            "code for macOS is compiled and linked by the package ziglang, which is not installed; "
            "try pip install ziglang, or lower the model on a Mac"
        )
    program = Path(package.origin).parent / "zig"
    identity = f"{program.stat().st_size} {program.stat().st_mtime_ns} {_OLDEST_MACOS}"
    target = f"aarch64-macos.{_OLDEST_MACOS}"
    return Compiler((str(program), "c++", "-target", target), True, identity)


@dataclasses.dataclass(frozen=True)
class MacBuildStep(BuildStep):
    """The steps of `toolchain.build` for macOS."""

    @staticmethod
    def find_compiler() -> Compiler:
        return find_compiler()

    @staticmethod
    def imported_symbols(shared_object: bytes) -> tuple[str, ...]:
        return tuple(
            sorted(
                _PREFIX + name.removeprefix(_PRIVATE_PREFIX)
                if name.startswith(_PRIVATE_PREFIX)
                else name
                for name in macho.undefined_symbols(shared_object)
            )
        )

    def model(self, text: str) -> Source:
        source = super().model(text)
        names = sorted(
            name for name in shim_list.load(self.device).names if name.startswith(_PREFIX)
        )
        private = "".join(
            f"#define {name} {_PRIVATE_PREFIX}{name.removeprefix(_PREFIX)}\n" for name in names
        )
        return dataclasses.replace(source, header=private + source.header)

    def kernels(self, text: str) -> Source:
        if text:
            raise ToolchainError(
                "a part of the model computes on the CPU within a program for macOS, and only "
                "models that compute on the GPU alone are compiled for it"
            )
        return super().kernels(text)

    @functools.cached_property
    def common_flags(self) -> tuple[str, ...]:
        flags = (*super().common_flags, "-fvisibility=hidden", "-fvisibility-inlines-hidden")
        if self._is_cross:
            annotations = "_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS"
            flags += (f"-U{annotations}", f"-D{annotations}=1")
        return flags

    @property
    def environment(self) -> Mapping[str, str]:
        folder = str(self.cache.folder / "zig")
        return {"ZIG_GLOBAL_CACHE_DIR": folder, "ZIG_LOCAL_CACHE_DIR": folder}

    @property
    def _is_cross(self) -> bool:
        return sys.platform != "darwin"

    def link(self, folder: Path, objects: Sequence[bytes], support: Path) -> bytes:
        """Links a library that exports only the container's entry points, by symbol visibility."""
        names = []
        for index, data in enumerate(objects):
            names.append(f"{index}.o")
            (folder / names[-1]).write_bytes(data)
        cpp = []
        if self._is_cross:
            wanted = {name for data in objects for name in macho.undefined_symbols(data)}
            defined = {name for data in objects for name in macho.defined_symbols(data)}
            symbols = sorted(
                f"'_{name}'"
                for name in wanted - defined
                if name.startswith(_CPP_PREFIXES) and name not in _OF_LIBSYSTEM
            )
            (folder / "libc++.tbd").write_text(_LIBCPP.format(", ".join(symbols)))
            cpp = ["-nostdlib++", "libc++.tbd"]
        self._run(
            [
                *("-shared", "-w", "-O1", "-fvisibility=hidden", *names, support.name, *cpp),
                *("-Wl,-undefined,dynamic_lookup", "-Wl,-install_name,model.dylib"),
                *("-Wl,-dead_strip", "-Wl,-s" if self._is_cross else "-Wl,-x"),
                *("-o", "model.dylib"),
            ],
            folder=folder,
        )
        return (folder / "model.dylib").read_bytes()
