"""Programs with other code and digests of their own, as an attacker makes them."""

import hashlib
import struct
from collections.abc import Callable

from pteron.exir._serialize import schema
from pteron.exir._serialize.container import PROGRAM, open_container
from pteron.exir._serialize.flatbuffer import from_flatbuffer

Edit = Callable[[bytearray], None]


def _tables(program: bytes | bytearray) -> tuple[schema.Program, int]:
    opened = open_container(PROGRAM, bytes(program))
    return from_flatbuffer(schema.Program, bytes(opened.flatbuffer)), opened.segment_base


def codes(program: bytes) -> list[bytes]:
    """The shared objects in a program."""
    tables, base = _tables(program)
    data = [program[base + s.offset : base + s.offset + s.size] for s in tables.segments]
    return [each for each in data if each.startswith(b"\x7fELF")]


def altered(program: bytes, edit: Edit) -> bytes:
    """The program with edited code, and digests of its own: as an attacker makes it."""
    tables, base = _tables(program)
    changed = bytearray(program)
    for code in codes(program):
        other = bytearray(code)
        edit(other)
        changed = changed.replace(code, other)
        old, new = hashlib.sha256(code), hashlib.sha256(other)
        changed = changed.replace(old.digest(), new.digest())
        changed = changed.replace(old.hexdigest().encode(), new.hexdigest().encode())
    table = PROGRAM.table_offset + 8
    end = table + 32 * (1 + len(tables.segments))
    for index, segment in enumerate(tables.segments):
        start = base + segment.offset
        digest = hashlib.sha256(changed[start : start + segment.size]).digest()
        changed[table + 32 * (index + 1) : table + 32 * (index + 2)] = digest
    (flatbuffer_end,) = struct.unpack_from("<Q", changed, 16)
    whole = changed[:table] + bytes(end - table) + changed[end:flatbuffer_end]
    changed[table : table + 32] = hashlib.sha256(whole).digest()
    return bytes(changed)
