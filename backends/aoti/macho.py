"""What a Mach-O file of 64 bits, object or library, leaves to others: undefined symbols.

Names are as C spells them, without the underscore that Mach-O puts before them.
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
    """Name, type and description of each symbol that other files see."""
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
    """Sorted names that it leaves to whoever loads it: none of the libraries that it names has
    them. Of an object: all that it does not define."""
    # Linkers write the number of the library; zig's writes 0 where others write DYNAMIC_LOOKUP.
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
    """Sorted names that it offers to other files; of an object also those that are hidden."""
    return tuple(sorted(name for name, kind, _ in _external_symbols(image) if kind != 0))
