"""The run paths of libraries that leave the build."""

import io

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile


def with_own_run_path(library: bytes) -> bytes:
    """The library without the entries of its RUNPATH that lead to Bazel's folders."""
    elf = ELFFile(io.BytesIO(library))
    dynamic = elf.get_section_by_name(".dynamic")
    assert isinstance(dynamic, DynamicSection)
    strings = elf.get_section_by_name(".dynstr")["sh_offset"]
    changed = bytearray(library)
    for tag in dynamic.iter_tags("DT_RUNPATH"):
        old = tag.runpath.encode()
        kept = [entry for entry in old.split(b":") if b"_solib_" not in entry]
        at = strings + tag.entry.d_val
        assert library[at : at + len(old)] == old
        changed[at : at + len(old)] = b":".join(kept).ljust(len(old), b"\0")
    return bytes(changed)
