"""What a linked image asks for: undefined symbols and needed libraries (ELF64, little-endian)."""

from __future__ import annotations

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


def _sections(image: bytes) -> list[_Section]:
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"not a little-endian ELF64 image: starts with {image[:6]!r}")
    (table,) = struct.unpack_from("<Q", image, 0x28)
    entry_size, count = struct.unpack_from("<HH", image, 0x3A)
    sections = []
    for index in range(count):
        name, kind, _, _, offset, size, link, _, _, item = struct.unpack_from(
            "<IIQQQQIIQQ", image, table + index * entry_size
        )
        sections.append(_Section(name, kind, offset, size, link, item))
    return sections


def _text(image: bytes, table: _Section, offset: int) -> str:
    start = table.offset + offset
    return image[start : image.index(b"\0", start)].decode()


@dataclasses.dataclass(frozen=True)
class _Symbol:
    name: str
    is_global: bool
    is_defined: bool
    has_version: bool


def _dynamic_symbols(image: bytes) -> Iterator[_Symbol]:
    sections = _sections(image)
    symbols = next((s for s in sections if s.type == _SHT_DYNSYM), None)
    if symbols is None:
        return
    versions = next((s for s in sections if s.type == _SHT_GNU_VERSYM), None)
    for index in range(1, symbols.size // symbols.entry_size):
        offset = symbols.offset + index * symbols.entry_size
        name, info, _, section = struct.unpack_from("<IBBH", image, offset)
        version = 0
        if versions is not None:
            (version,) = struct.unpack_from("<H", image, versions.offset + 2 * index)
        yield _Symbol(
            _text(image, sections[symbols.link], name),
            info >> 4 == _STB_GLOBAL,
            section != 0,
            version & 0x7FFF > 1,
        )


def undefined_symbols(image: bytes) -> tuple[str, ...]:
    """Sorted names that the image leaves to whoever loads it.

    Symbols that name a library version (libc, libstdc++, libm, libgomp) and weak ones are not
    among them.
    """
    return tuple(
        sorted(
            symbol.name
            for symbol in _dynamic_symbols(image)
            if symbol.is_global and not symbol.is_defined and not symbol.has_version
        )
    )


def exported_symbols(image: bytes) -> tuple[str, ...]:
    """Sorted names that the image offers."""
    return tuple(sorted(symbol.name for symbol in _dynamic_symbols(image) if symbol.is_defined))


def needed_libraries(image: bytes) -> tuple[str, ...]:
    """The DT_NEEDED entries, in order."""
    sections = _sections(image)
    dynamic = next((s for s in sections if s.type == _SHT_DYNAMIC), None)
    if dynamic is None:
        return ()
    found = []
    for offset in range(dynamic.offset, dynamic.offset + dynamic.size, 16):
        tag, value = struct.unpack_from("<qQ", image, offset)
        if tag == _DT_NEEDED:
            found.append(_text(image, sections[dynamic.link], value))
    return tuple(found)
