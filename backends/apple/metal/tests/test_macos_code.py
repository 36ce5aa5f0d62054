"""Code for a Mac, as its loader would read it; no Mac has loaded it."""

import hashlib
import importlib.util
import pathlib
import shlex
import struct
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from pteron.backends.aoti import inductor, mac_toolchain, macho, toolchain
from pteron.backends.aoti.object_cache import ObjectCache
from pteron.backends.aoti.ops import shim_list
from pteron.backends.apple.metal import MetalOptions, MetalPartitioner
from pteron.backends.apple.metal.metal_backend import MetalBackend
from pteron.backends.apple.metal.tests.programs import lower
from pteron.exir import ExecutorchBackendConfig

_ARM64, _DYLIB, _MACOS = 0x100000C, 6, 1
_LOAD_DYLIB, _DYLD_INFO, _SIGNATURE, _BUILD_VERSION = 0xC, 0x80000022, 0x1D, 0x32
_LIBRARIES = ["/usr/lib/libSystem.B.dylib", "/usr/lib/libc++.1.dylib"]
_FLAT = -2


class Layers(nn.Module):
    """Kernels of Inductor's, a product, sizes that change and an exception's way out."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(x).softmax(-1).cumsum(0)


@pytest.fixture(scope="module")
def code() -> inductor.GeneratedCode:
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(Layers(), (torch.randn(4, 8),), dynamic_shapes=({0: batch},))
    options = MetalOptions()
    return inductor.generate(
        MetalBackend._prepare(program.run_decompositions(), options),
        MetalBackend.get_build_target(options).code,
    )


def build(code: inductor.GeneratedCode) -> bytes:
    machine = MetalBackend.get_build_target(MetalOptions()).machine
    return toolchain.build(code, machine, device="mps")


@pytest.fixture(scope="module")
def image(code: inductor.GeneratedCode) -> bytes:
    return build(code)


def command(image: bytes, kind: int) -> int:
    (found,) = (offset for each, offset in macho.load_commands(image) if each == kind)
    return found


def libraries(image: bytes) -> list[str]:
    found = []
    for kind, offset in macho.load_commands(image):
        if kind == _LOAD_DYLIB:
            start = offset + struct.unpack_from("<I", image, offset + 8)[0]
            found.append(image[start : image.index(b"\0", start)].decode())
    return found


def number(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned LEB128 number and what is behind it."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return value, at


def binds(data: bytes) -> Iterator[tuple[str, int]]:
    """What dyld binds, by its own instructions: names, and numbers of libraries."""
    at, library, name = 0, 0, ""
    while at < len(data):
        opcode, low = data[at] & 0xF0, data[at] & 0x0F
        at += 1
        if opcode == 0x10:
            library = low
        elif opcode == 0x20:
            library, at = number(data, at)
        elif opcode == 0x30:
            library = low - 16 if low else 0
        elif opcode == 0x40:
            end = data.index(b"\0", at)
            name, at = data[at:end].decode(), end + 1
        elif opcode in (0x60, 0x70, 0x80):  # SLEB128 and LEB128 numbers are of one length
            _, at = number(data, at)
        elif opcode == 0xC0:
            _, at = number(data, at)
            _, at = number(data, at)
        if opcode == 0xA0:
            _, at = number(data, at)
        if opcode in (0x90, 0xA0, 0xB0, 0xC0):
            yield name, library


def all_binds(image: bytes) -> set[tuple[str, int]]:
    tables = struct.unpack_from("<8I", image, command(image, _DYLD_INFO) + 16)
    _, weak_size, *_ = tables[2:]
    assert weak_size == 0  # nothing that other libraries of the process could replace
    bound, lazy = tables[0:2], tables[4:6]
    return {bind for offset, size in (bound, lazy) for bind in binds(image[offset : offset + size])}


def test_it_is_a_library_for_arm64_and_macos_14(image: bytes) -> None:
    assert struct.unpack_from("<II", image, 4)[0] == _ARM64
    assert struct.unpack_from("<I", image, 12)[0] == _DYLIB
    version = struct.unpack_from("<II", image, command(image, _BUILD_VERSION) + 8)
    assert version == (_MACOS, 14 << 16)
    assert libraries(image) == _LIBRARIES


def test_undefined_names_are_shims_and_those_of_the_systems_libraries(image: bytes) -> None:
    found = all_binds(image)
    flat = {name.removeprefix("_") for name, library in found if library == _FLAT}
    assert flat and flat == set(macho.undefined_symbols(image))
    imported = mac_toolchain.MacBuildStep.imported_symbols(image)
    assert {name.replace("ptrn_torch_", "aoti_torch_") for name in flat} == set(imported)
    assert {"aoti_torch_mps_addmm_out", "aoti_torch_mps_run_command_block"} <= set(imported)
    assert set(imported) <= shim_list.load("mps").names
    assert {library for _, library in found} == {_FLAT, 1, 2}
    of_cpp = {name for name, library in found if library == 2}
    assert {"___cxa_throw", "___gxx_personality_v0"} < of_cpp
    # What a template made, the model's own, is of no library.
    assert all("aot_inductor" not in name for name in of_cpp)
    # Of libc++, nothing that macOS 14 lacks (LLVM 18 and later).
    later = {"___cxa_init_primary_exception", "__ZNSt3__113__hash_memoryEPKvm"}
    assert not later & of_cpp


def test_only_entry_points_are_exported(image: bytes) -> None:
    own = {"_mh_dylib_header", "__dso_handle", "pteron_set_tracing"}
    exported = set(macho.defined_symbols(image)) - own
    assert "AOTInductorModelContainerRunSingleThreaded" in exported
    assert all(name.startswith("AOTInductor") for name in exported)


def test_the_linkers_signature_is_that_of_the_bytes(image: bytes) -> None:
    signature, _ = struct.unpack_from("<II", image, command(image, _SIGNATURE) + 8)
    magic, _, count = struct.unpack_from(">III", image, signature)
    assert (magic, count) >= (0xFADE0CC0, 1)
    at = signature + struct.unpack_from(">I", image, signature + 16)[0]
    magic, _, _, flags, hashes = struct.unpack_from(">IIIII", image, at)
    slots, limit = struct.unpack_from(">II", image, at + 28)
    size, kind, _, page = struct.unpack_from(">BBBB", image, at + 36)
    assert (magic, limit, size, kind) == (0xFADE0C02, signature, 32, 2)
    assert flags & 2  # ad hoc
    for slot in range(slots):
        start = slot << page
        found = hashlib.sha256(image[start : min(start + (1 << page), limit)]).digest()
        assert image[at + hashes + 32 * slot :][:32] == found, f"page {slot}"


def test_equal_code_gives_equal_bytes(code: inductor.GeneratedCode, image: bytes) -> None:
    assert build(code) == image
    assert b"/zig/" not in image and b".cache" not in image


def test_private_names_are_those_of_the_runtime() -> None:
    table = pathlib.Path(mac_toolchain.__file__).parent / "shims/private_names.h"
    prefixes = f'{{"{mac_toolchain._PREFIX}", "{mac_toolchain._PRIVATE_PREFIX}", false}}'
    assert prefixes in table.read_text()


def test_a_command_signs_it(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "sign.py"
    script.write_text("import sys\nopen(sys.argv[-1], 'ab').write(sys.argv[1].encode())\n")
    sign = shlex.join([sys.executable, str(script), "a name"])
    assert MetalBackend.codesign_so(b"code", MetalOptions(sign=sign)) == b"codea name"
    assert MetalBackend.codesign_so(b"code", MetalOptions()) == b"code"
    script.write_text("raise SystemExit('no such identity')\n")
    with pytest.raises(toolchain.ToolchainError, match=r"exit 1\)\.\nno such identity"):
        MetalBackend.codesign_so(b"code", MetalOptions(sign=sign))
    with pytest.raises(toolchain.ToolchainError, match="cannot be signed by 'no-such-command'"):
        MetalBackend.codesign_so(b"code", MetalOptions(sign="no-such-command"))


def test_without_ziglang_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    mac_toolchain.find_compiler.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(toolchain.ToolchainError, match="try pip install ziglang"):
        mac_toolchain.find_compiler()
    mac_toolchain.find_compiler.cache_clear()


def test_what_was_lowered_before_is_not_lowered_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless another program signs it, whose result is not known."""
    calls: list[object] = []
    generate = inductor.generate_variants

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return generate(*args, **kwargs)

    cache = ObjectCache(tmp_path, 1 << 30)
    monkeypatch.setattr(inductor, "generate_variants", counted)
    monkeypatch.setattr(toolchain, "shared_cache", lambda: cache)

    def made(options: MetalOptions) -> bytes:
        torch.manual_seed(0)
        edge = lower(
            torch.export.export(nn.Linear(8, 16), (torch.ones(2, 8),)), [MetalPartitioner(options)]
        )
        return edge.to_executorch(ExecutorchBackendConfig(verify=False)).buffer

    first = made(MetalOptions())
    assert len(calls) == 1
    assert made(MetalOptions()) == first
    assert len(calls) == 1
    signed = MetalOptions(sign="true")
    assert made(signed) == made(signed)
    assert len(calls) == 3
