"""Code of real programs, altered: what lowering and loading refuse."""

import struct
from pathlib import Path

import pytest
import torch

import pteron
from pteron.backends.aoti import elf
from pteron.runtime import InvalidProgramError, Runtime, Verification
from tests.trust import model
from tests.trust.altered import Edit, altered, codes

_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_DT_RELACOUNT, _DT_RPATH, _DT_RUNPATH, _DT_TEXTREL, _DT_AUXILIARY = (
    0x6FFFFFF9,
    15,
    29,
    22,
    0x7FFFFFFD,
)


def _segments(code: bytearray) -> list[tuple[int, int, int, int, int]]:
    """Place of each program header, its type, flags, offset and size in the file."""
    (start,) = struct.unpack_from("<Q", code, 0x20)
    (count,) = struct.unpack_from("<H", code, 0x38)
    found = []
    for at in range(start, start + 56 * count, 56):
        kind, flags, offset = struct.unpack_from("<IIQ", code, at)
        (nbytes,) = struct.unpack_from("<Q", code, at + 32)
        found.append((at, kind, flags, offset, nbytes))
    return found


def _flags(kind: int, has: int, add: int) -> Edit:
    def edit(code: bytearray) -> None:
        for at, found, flags, _, _ in _segments(code):
            if found == kind and flags & has == has:
                struct.pack_into("<I", code, at + 4, flags | add)

    return edit


def _name(name: bytes, by: bytes) -> Edit:
    assert len(name) == len(by)

    def edit(code: bytearray) -> None:
        start = code.index(b"\0" + name + b"\0")
        code[start + 1 : start + 1 + len(by)] = by

    return edit


def _dynamic(tag: int) -> Edit:
    """An entry of the dynamic section instead of a hint of the linker's."""

    def edit(code: bytearray) -> None:
        ((_, _, _, offset, nbytes),) = [s for s in _segments(code) if s[1] == _PT_DYNAMIC]
        places = range(offset, offset + nbytes, 16)
        (at,) = [p for p in places if struct.unpack_from("<Q", code, p)[0] == _DT_RELACOUNT]
        struct.pack_into("<QQ", code, at, tag, 1)

    return edit


_REFUSED: dict[str, tuple[Edit, str]] = {
    "function system": (_name(b"strlen", b"system"), "do not import.*: system"),
    "function dlopen": (_name(b"memcpy", b"dlopen"), "do not import.*: dlopen"),
    "function getenv, another": (_name(b"getenv", b"setenv"), "do not import.*: setenv"),
    "library": (_name(b"libgcc_s.so.1", b"libevil.so.66"), "do not import.*: libevil.so.66"),
    "library by path": (_name(b"libgcc_s.so.1", b"/opt/evil.so1"), "do not import.*: /opt/evil"),
    "executable stack": (_flags(_PT_GNU_STACK, 0, 1), "an executable stack"),
    "writable code": (_flags(_PT_LOAD, 1, 2), "both writable and executable"),
    "executable data": (_flags(_PT_LOAD, 2, 1), "both writable and executable"),
    "text relocations": (_dynamic(_DT_TEXTREL), "text relocations"),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("model") / "model.pte"
    module, inputs = model.build()
    pteron.export(module, inputs, path)
    return path.read_bytes()


def _run(program: bytes) -> list[torch.Tensor]:
    loaded = Runtime.get().load_program(program, verification=Verification.Required)
    found = loaded.load_method("forward").execute(list(model.build()[1]))
    return [torch.from_dlpack(value) for value in found]


def _comment(code: bytearray) -> None:
    """A byte that means nothing: the last one, of the table of sections."""
    code[-1] ^= 1


def test_an_altered_program_with_digests_of_its_own_is_loaded(program: bytes) -> None:
    """Or the tests below would prove nothing."""
    for found, expected in zip(_run(altered(program, _comment)), _run(program), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("name", _REFUSED)
def test_code_that_reaches_out_is_refused(program: bytes, name: str) -> None:
    edit, why = _REFUSED[name]
    for code in codes(program):
        other = bytearray(code)
        edit(other)
        assert other != code
        with pytest.raises(ValueError, match=why):
            elf.checked(bytes(other))
        assert elf.checked(code) == code
    before = Path("/proc/self/maps").read_text().count("pteron_model")
    with pytest.raises(InvalidProgramError, match=why):
        _run(altered(program, edit))
    assert Path("/proc/self/maps").read_text().count("pteron_model") == before


def test_a_library_to_open_in_addition_is_refused(program: bytes) -> None:
    with pytest.raises(InvalidProgramError, match="a library that it would have opened"):
        _run(altered(program, _dynamic(_DT_AUXILIARY)))


@pytest.mark.parametrize("tag", [_DT_RPATH, _DT_RUNPATH])
def test_run_paths_are_removed(program: bytes, tag: int) -> None:
    """Linkers of some distributions put them everywhere."""
    for code in codes(program):
        other = bytearray(code)
        _dynamic(tag)(other)
        removed = elf.checked(bytes(other))
        assert removed != other and len(removed) == len(other)
        assert elf.checked(removed) == removed
    for found, expected in zip(_run(altered(program, _dynamic(tag))), _run(program), strict=True):
        assert torch.equal(found, expected)
