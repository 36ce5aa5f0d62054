"""Reading shared objects; real ones are read in test_toolchain."""

import subprocess
from pathlib import Path

import pytest

from pteron.backends.aoti import elf
from pteron.backends.aoti.toolchain import find_compiler


def test_something_else_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"not a little-endian ELF64 shared object: starts with b'MZ"
    ):
        elf.undefined_symbols(b"MZ\x90\x00 not a shared object")


def test_a_cxx_runtime_may_be_linked_in(tmp_path: Path) -> None:
    """As some compilers do by default: it imports more of the C library than models do."""
    source, library = tmp_path / "model.cpp", tmp_path / "model.so"
    source.write_text(
        "#include <mutex>\n#include <sstream>\n#include <stdexcept>\n#include <unordered_map>\n"
        'extern "C" int run(double x) {\n'
        '  static const std::unordered_map<std::string, double> constants = {{"a", x}};\n'
        '  std::ostringstream text;\n  text << std::fixed << constants.at("a") << x;\n'
        "  std::stringstream(text.str()) >> x;\n"
        "  if (x < 0) throw std::runtime_error(text.str());\n  return x;\n}\n"
    )
    options = (
        "-shared",
        "-fPIC",
        "-O2",
        "-static-libstdc++",
        "-static-libgcc",
        "-Wl,--gc-sections",
    )
    command = [*find_compiler().command, *options, str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    shared_object = library.read_bytes()
    assert b"GLIBCXX_" not in shared_object, "the C++ runtime is not linked in"
    assert elf.checked(shared_object) == shared_object
