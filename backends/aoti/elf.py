"""What a linked shared object imports (ELF64, little-endian)."""

import functools
import re
import struct
from collections.abc import Iterator
from pathlib import Path

_SHT_DYNAMIC, _SHT_DYNSYM, _SHT_GNU_VERSYM, _SHT_GNU_VERNEED = 6, 11, 0x6FFFFFFF, 0x6FFFFFFE
_PT_LOAD, _PT_GNU_STACK, _PF_X, _PF_W = 1, 0x6474E551, 1, 2
_DT_NEEDED, _DT_TEXTREL, _DT_FLAGS, _DF_TEXTREL = 1, 22, 30, 4
_RUN_PATHS, _IGNORED_TAG = (15, 29), 0x60000000  # an unused tag, which loaders skip
_STB_GLOBAL = 1
#: The prefixes of private_names.h: functions of the runtime.
_OF_THE_RUNTIME = re.compile("aoti_torch_|Sleef_|GOMP_|omp_|cuda[A-Z]|cu[A-Z]")


class _Tables:
    """Sections and the dynamic symbols."""

    def __init__(self, shared_object: bytes) -> None:
        if shared_object[:6] != b"\x7fELF\x02\x01":
            raise ValueError(
                f"not a little-endian ELF64 shared object: starts with {shared_object[:6]!r}"
            )
        self.data = shared_object
        (table,) = struct.unpack_from("<Q", shared_object, 0x28)
        entry_size, count = struct.unpack_from("<HH", shared_object, 0x3A)
        # Of each section its type, offset, size and the number of the section that it refers to.
        self.sections = [
            struct.unpack_from("<4xI16xQQI", shared_object, table + index * entry_size)
            for index in range(count)
        ]
        self.by_type = {section[0]: section for section in self.sections}

    def text(self, strings: int, offset: int) -> str:
        """A name in the section of strings."""
        start = self.sections[strings][1] + offset
        return self.data[start : self.data.index(b"\0", start)].decode()

    def undefined(self) -> Iterator[tuple[str, int, int]]:
        """Name, binding and number of the version of each undefined symbol; 1 is none."""
        if _SHT_DYNSYM not in self.by_type:
            return
        _, symbols, size, names = self.by_type[_SHT_DYNSYM]
        versions = self.by_type.get(_SHT_GNU_VERSYM)
        for index in range(1, size // 24):
            name, info, section = struct.unpack_from("<IBxH", self.data, symbols + 24 * index)
            if section == 0:
                version = 1
                if versions is not None:
                    (version,) = struct.unpack_from("<H", self.data, versions[1] + 2 * index)
                yield self.text(names, name), info >> 4, max(version & 0x7FFF, 1)

    def versions(self) -> dict[int, str]:
        """Names of needed versions by their number."""
        found: dict[int, str] = {}
        if _SHT_GNU_VERNEED not in self.by_type:
            return found
        _, need, _, names = self.by_type[_SHT_GNU_VERNEED]
        while True:
            count, auxiliary, next_need = struct.unpack_from("<2xH4xII", self.data, need)
            at = need + auxiliary
            for _ in range(count):
                number, name, next_at = struct.unpack_from("<6xHII", self.data, at)
                found[number & 0x7FFF] = self.text(names, name)
                at += next_at
            if next_need == 0:
                return found
            need += next_need

    def dynamic(self) -> Iterator[tuple[int, int, int]]:
        """Offset, tag and value of each entry of the dynamic section."""
        _, start, size, _ = self.by_type[_SHT_DYNAMIC]
        for at in range(start, start + size, 16):
            yield at, *struct.unpack_from("<QQ", self.data, at)


def undefined_symbols(shared_object: bytes) -> tuple[str, ...]:
    """Sorted undefined symbols of the shared object.

    Without versioned symbols (libc, libstdc++, libm, libgomp) and weak ones.
    """
    found = _Tables(shared_object).undefined()
    return tuple(
        sorted(name for name, bind, version in found if bind == _STB_GLOBAL and version == 1)
    )


def checked(shared_object: bytes) -> bytes:
    """The shared object without run paths.

    ValueError: it imports what is not in shims/system_imports.inc, or asks for an executable stack,
    text relocations, or memory that is writable and executable. Loading refuses it, too.
    """
    tables = _Tables(shared_object)
    libraries, prefixes, functions = _system_imports()
    problems = []
    (headers,) = struct.unpack_from("<Q", shared_object, 0x20)
    (count,) = struct.unpack_from("<H", shared_object, 0x38)
    segments = [struct.unpack_from("<II", shared_object, headers + 56 * i) for i in range(count)]
    if any(kind == _PT_LOAD and flags & _PF_W and flags & _PF_X for kind, flags in segments):
        problems.append("memory that is both writable and executable")
    if not any(kind == _PT_GNU_STACK and not flags & _PF_X for kind, flags in segments):
        problems.append("an executable stack")
    without = bytearray(shared_object)
    names = tables.by_type[_SHT_DYNAMIC][3]
    for at, tag, value in tables.dynamic():
        if tag == _DT_NEEDED and tables.text(names, value) not in libraries:
            problems.append(tables.text(names, value))
        elif tag == _DT_TEXTREL or (tag == _DT_FLAGS and value & _DF_TEXTREL):
            problems.append("text relocations")
        elif tag in _RUN_PATHS:
            struct.pack_into("<Q", without, at, _IGNORED_TAG)
    versions = tables.versions()
    for name, _, number in tables.undefined():
        is_ours = number == 1 and _OF_THE_RUNTIME.match(name)
        if not (is_ours or name in functions or versions.get(number, "").startswith(prefixes)):
            problems.append(name)
    if problems:
        raise ValueError(
            f"the linked code needs what models do not import: {', '.join(sorted(set(problems)))}."
            " See the compiler's and linker's default options; backends/aoti/shims/"
            "system_imports.inc lists what there may be"
        )
    return bytes(without)


@functools.cache
def _system_imports() -> tuple[frozenset[str], tuple[str, ...], frozenset[str]]:
    """Libraries, prefixes of versions, and functions."""
    text = (Path(__file__).parent / "shims/system_imports.inc").read_text(encoding="utf-8")
    lists = {
        kind: " ".join(re.findall('"(.*)"', words)).split()
        for kind, words in re.findall(r"^SYSTEM_(\w+)\(\n(.*?)\)$", text, re.MULTILINE | re.DOTALL)
    }
    functions = set(lists["FUNCTIONS"])
    for name in lists["FUNCTIONS"]:
        functions |= {f"__{name}_chk", f"__isoc23_{name}", f"__isoc99_{name}"}
    for name in lists["MATH"]:
        for typed in (name, f"{name}f", f"{name}l"):
            functions |= {typed, f"__{typed}_finite"}
    return frozenset(lists["LIBRARIES"]), tuple(lists["VERSIONS"]), frozenset(functions)
