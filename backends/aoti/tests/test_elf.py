"""Reading shared objects; real ones are read in test_toolchain."""

import pytest

from pteron.backends.aoti import elf


def test_something_else_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"not a little-endian ELF64 shared object: starts with b'MZ"
    ):
        elf.undefined_symbols(b"MZ\x90\x00 not a shared object")
