"""What a linked shared object leaves undefined (ELF64, little-endian)."""

import struct

_SHT_DYNSYM, _SHT_GNU_VERSYM = 11, 0x6FFFFFFF
_STB_GLOBAL = 1


def undefined_symbols(shared_object: bytes) -> tuple[str, ...]:
    """Sorted undefined symbols of the shared object.

    Without versioned symbols (libc, libstdc++, libm, libgomp) and weak ones.
    """
    if shared_object[:6] != b"\x7fELF\x02\x01":
        raise ValueError(
            f"not a little-endian ELF64 shared object: starts with {shared_object[:6]!r}"
        )
    (table,) = struct.unpack_from("<Q", shared_object, 0x28)
    entry_size, count = struct.unpack_from("<HH", shared_object, 0x3A)
    # Of each section its type, offset, size and the number of the section that it refers to.
    sections = [
        struct.unpack_from("<4xI16xQQI", shared_object, table + index * entry_size)
        for index in range(count)
    ]
    by_type = {section[0]: section for section in sections}
    if _SHT_DYNSYM not in by_type:
        return ()
    _, symbols, size, names = by_type[_SHT_DYNSYM]
    versions = by_type[_SHT_GNU_VERSYM][1] if _SHT_GNU_VERSYM in by_type else None
    found = []
    for index in range(1, size // 24):
        name, info, section = struct.unpack_from("<IBxH", shared_object, symbols + 24 * index)
        version = 0
        if versions is not None:
            (version,) = struct.unpack_from("<H", shared_object, versions + 2 * index)
        if info >> 4 == _STB_GLOBAL and section == 0 and version & 0x7FFF <= 1:
            start = sections[names][1] + name
            found.append(shared_object[start : shared_object.index(b"\0", start)].decode())
    return tuple(sorted(found))
