"""Reads undefined and exported symbols of a 64-bit Mach-O object or library.

Names are C names, without Mach-O's leading underscore.
"""

import struct
from collections.abc import Iterator

MAGIC = b"\xcf\xfa\xed\xfe"
_LC_SYMTAB = 2
_STAB, _TYPE, _EXTERNAL = 0xE0, 0x0E, 0x01
_DYNAMIC_LOOKUP = 0xFE
_WEAK_REFERENCE = 0x40


def load_commands(image: bytes) -> Iterator[tuple[int, int]]:
    """Kind and offset of each load command."""
    if image[:4] != MAGIC:
        raise ValueError(f"not a Mach-O file of 64 bits: starts with {image[:4]!r}")
    (count,) = struct.unpack_from("<I", image, 16)
    offset = 32
    for _ in range(count):
        kind, size = struct.unpack_from("<II", image, offset)
        yield kind, offset
        offset += size


def _external_symbols(image: bytes) -> Iterator[tuple[str, int, int]]:
    """Name, type and description of each external symbol."""
    for kind, command in load_commands(image):
        if kind != _LC_SYMTAB:
            continue
        table, count, strings, _ = struct.unpack_from("<IIII", image, command + 8)
        for index in range(count):
            name, flags, _, description = struct.unpack_from("<IBBH", image, table + 16 * index)
            if flags & _EXTERNAL and not flags & _STAB:
                start = strings + name
                text = image[start : image.index(b"\0", start)].decode()
                yield text.removeprefix("_"), flags & _TYPE, description


def undefined_symbols(image: bytes) -> tuple[str, ...]:
    """Sorted undefined symbols that are not bound to a library; for an object all undefined
    symbols."""
    # Linkers store the library ordinal; zig's stores 0 instead of DYNAMIC_LOOKUP.
    return tuple(
        sorted(
            name
            for name, kind, description in _external_symbols(image)
            if kind == 0
            and description >> 8 in (0, _DYNAMIC_LOOKUP)
            and not description & _WEAK_REFERENCE
        )
    )


def defined_symbols(image: bytes) -> tuple[str, ...]:
    """Sorted exported symbols; for an object also hidden ones."""
    return tuple(sorted(name for name, kind, _ in _external_symbols(image) if kind != 0))
