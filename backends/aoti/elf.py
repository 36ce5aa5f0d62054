"""Reads undefined symbols and needed libraries of a shared object (ELF64, little-endian)."""

import dataclasses
import struct
from collections.abc import Iterator

_SHT_DYNAMIC, _SHT_DYNSYM = 6, 11
_SHT_GNU_VERSYM = 0x6FFFFFFF
_DT_NEEDED = 1
_STB_GLOBAL = 1


@dataclasses.dataclass(frozen=True)
class _Section:
    name_offset: int
    type: int
    offset: int
    size: int
    link: int
    entry_size: int


def _sections(shared_object: bytes) -> list[_Section]:
    if shared_object[:6] != b"\x7fELF\x02\x01":
        raise ValueError(
            f"not a little-endian ELF64 shared object: starts with {shared_object[:6]!r}"
        )
    (table,) = struct.unpack_from("<Q", shared_object, 0x28)
    entry_size, count = struct.unpack_from("<HH", shared_object, 0x3A)
    sections = []
    for index in range(count):
        name, kind, _, _, offset, size, link, _, _, item = struct.unpack_from(
            "<IIQQQQIIQQ", shared_object, table + index * entry_size
        )
        sections.append(_Section(name, kind, offset, size, link, item))
    return sections


def _text(shared_object: bytes, table: _Section, offset: int) -> str:
    start = table.offset + offset
    return shared_object[start : shared_object.index(b"\0", start)].decode()


@dataclasses.dataclass(frozen=True)
class _Symbol:
    name: str
    is_global: bool
    is_defined: bool
    has_version: bool


def _dynamic_symbols(shared_object: bytes) -> Iterator[_Symbol]:
    sections = _sections(shared_object)
    symbols = next((s for s in sections if s.type == _SHT_DYNSYM), None)
    if symbols is None:
        return
    versions = next((s for s in sections if s.type == _SHT_GNU_VERSYM), None)
    for index in range(1, symbols.size // symbols.entry_size):
        offset = symbols.offset + index * symbols.entry_size
        name, info, _, section = struct.unpack_from("<IBBH", shared_object, offset)
        version = 0
        if versions is not None:
            (version,) = struct.unpack_from("<H", shared_object, versions.offset + 2 * index)
        yield _Symbol(
            _text(shared_object, sections[symbols.link], name),
            info >> 4 == _STB_GLOBAL,
            section != 0,
            version & 0x7FFF > 1,
        )


def undefined_symbols(shared_object: bytes) -> tuple[str, ...]:
    """Sorted undefined symbols of the shared object.

    Without versioned symbols (libc, libstdc++, libm, libgomp) and weak ones.
    """
    return tuple(
        sorted(
            symbol.name
            for symbol in _dynamic_symbols(shared_object)
            if symbol.is_global and not symbol.is_defined and not symbol.has_version
        )
    )


def exported_symbols(shared_object: bytes) -> tuple[str, ...]:
    """Sorted symbols that the shared object exports."""
    return tuple(
        sorted(symbol.name for symbol in _dynamic_symbols(shared_object) if symbol.is_defined)
    )


def needed_libraries(shared_object: bytes) -> tuple[str, ...]:
    """The DT_NEEDED entries, in order."""
    sections = _sections(shared_object)
    dynamic = next((s for s in sections if s.type == _SHT_DYNAMIC), None)
    if dynamic is None:
        return ()
    found = []
    for offset in range(dynamic.offset, dynamic.offset + dynamic.size, 16):
        tag, value = struct.unpack_from("<qQ", shared_object, offset)
        if tag == _DT_NEEDED:
            found.append(_text(shared_object, sections[dynamic.link], value))
    return tuple(found)
