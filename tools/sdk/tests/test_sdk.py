"""The archive, unpacked in a clean folder: programs are built with it without Bazel."""

import os
import re
import shlex
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

ARCHIVE = Path(os.environ["SDK"]).resolve()
SAME = Path(os.environ["SAME_SDK"]).resolve()
CMAKE = Path(os.environ["CMAKE"]).resolve()
PROGRAM = Path(os.environ["PROGRAM"]).resolve()
# What eager computes, to the digits that the examples print.
ONES = [0.331971, 0.123183, 0.332094, 0.212752]
ZEROS = [0.324859, 0.132596, 0.327096, 0.21545]
# Nothing of the build reaches the programs.
ENVIRONMENT = {"PATH": os.environ["PATH"]}


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("a place of its own")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    assert ARCHIVE.name == f"{unpacked.name}.tar.gz"
    return unpacked.rename(folder / "moved")


@pytest.fixture(scope="module")
def built(sdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both examples, built with the compilers and pkg-config alone."""
    folder = tmp_path_factory.mktemp("built")
    example = sdk / "share/pteron/example"
    flags = pkg_config(sdk, "--cflags", "--libs")
    cpp = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", str(example / "run_model.cpp")]
    run(*cpp, *flags, "-o", folder / "run_model")
    c = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", example / "run_model.c"]
    run(*c, *flags, "-o", folder / "run_model_c")
    return folder


def run(*command: object, code: int = 0, **variables: str) -> str:
    """What it prints; its errors, if `code` is not 0."""
    done = subprocess.run(
        list(map(str, command)),
        env={**ENVIRONMENT, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done.stderr if code else done.stdout


def pkg_config(sdk: Path, *options: str) -> list[str]:
    if not shutil.which("pkg-config"):
        # What the file says; pkg-config only expands variables.
        text = (sdk / "lib/pkgconfig/pteron.pc").read_text().replace("${prefix}", str(sdk))
        return " ".join(re.findall(r"^(?:Cflags|Libs): (.*)$", text, re.MULTILINE)).split()
    path = str(sdk / "lib/pkgconfig")
    return shlex.split(run("pkg-config", *options, "pteron", PKG_CONFIG_PATH=path))


def values(printed: str) -> list[float]:
    assert printed.startswith("float32[2, 4]: "), printed
    return [float(text) for text in printed.partition(": ")[2].split()]


def test_with_a_compiler_alone(built: Path) -> None:
    assert values(run(built / "run_model", PROGRAM)) == pytest.approx(ONES * 2, abs=2e-6)
    assert values(run(built / "run_model_c", PROGRAM)) == pytest.approx(ZEROS * 2, abs=2e-6)


def test_with_cmake(sdk: Path, tmp_path: Path) -> None:
    build = tmp_path / "build"
    source = shutil.copytree(sdk / "share/pteron/example", tmp_path / "source")
    run(CMAKE, "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={sdk}")
    run(CMAKE, "--build", build)
    assert values(run(build / "run_model", PROGRAM)) == pytest.approx(ONES * 2, abs=2e-6)
    assert values(run(build / "run_model_c", PROGRAM)) == pytest.approx(ZEROS * 2, abs=2e-6)


@pytest.mark.parametrize(("asked", "found"), [("0.2", True), ("0.1", False), ("0.9", False)])
def test_cmake_checks_the_version(sdk: Path, tmp_path: Path, asked: str, found: bool) -> None:
    # In C alone, too.
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(x LANGUAGES C)\n"
        f"find_package(pteron {asked} REQUIRED)\n"
        "add_executable(x x.c)\ntarget_link_libraries(x pteron::pteron)\n"
    )
    shutil.copy(sdk / "share/pteron/example/run_model.c", tmp_path / "x.c")
    command = (CMAKE, "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={sdk}")
    if found:
        run(*command)
        run(CMAKE, "--build", tmp_path / "build")
    else:
        said = " ".join(run(*command, code=1).split())
        assert f'compatible with requested version "{asked}"' in said


@pytest.mark.parametrize("name", ["run_model", "run_model_c"])
def test_bad_programs_are_errors(built: Path, tmp_path: Path, name: str) -> None:
    assert "cannot open" in run(built / name, tmp_path / "none.pte", code=1)
    data = PROGRAM.read_bytes()
    bad = tmp_path / "bad.pte"
    for content in (b"", b"no program" * 100, data[: len(data) // 2], data[:200] + bytes(200)):
        bad.write_bytes(content)
        assert str(bad) in run(built / name, bad, code=1)


def test_a_backend_that_is_not_there(sdk: Path, tmp_path: Path, built: Path) -> None:
    without = shutil.copytree(sdk, tmp_path / "without")
    (without / "lib/libcpu_backend.so").unlink()
    said = run(built / "run_model_c", PROGRAM, code=1, LD_LIBRARY_PATH=str(without / "lib"))
    # LD_LIBRARY_PATH comes before the program's RUNPATH.
    assert f"expected {without}/lib/libcpu_backend.so" in said


def test_headers_stand_alone(sdk: Path, tmp_path: Path) -> None:
    headers = sorted((sdk / "include").rglob("*.h"))
    assert len(headers) > 20
    for header in headers:
        (tmp_path / "x.cpp").write_text(f'#include "{header.relative_to(sdk / "include")}"\n')
        run("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I",
            sdk / "include", tmp_path / "x.cpp")  # fmt: skip


def dynamic(library: Path, tag: str) -> list[str]:
    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".dynamic")
        assert isinstance(section, DynamicSection)
        attribute = tag.removeprefix("DT_").lower()
        return [getattr(entry, attribute) for entry in section.iter_tags(tag)]


def test_libraries(sdk: Path) -> None:
    libraries = {path.name: path for path in (sdk / "lib").glob("*.so")}
    assert set(libraries) == {
        "libcpu_backend.so",
        "libpteron.so",
        "libpteron_aoti.so",
        "libscipy_openblas.so",
    }
    system = {"ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1", "libm.so.6", "libstdc++.so.6"}
    assert set(dynamic(libraries["libpteron.so"], "DT_NEEDED")) <= system
    for library in libraries.values():
        needed = set(dynamic(library, "DT_NEEDED"))
        assert needed <= system | {"libmvec.so.1", "libpthread.so.0"} | set(libraries)
        for path in dynamic(library, "DT_RUNPATH"):
            assert all(entry.startswith("$ORIGIN") for entry in path.split(":"))
            assert "_solib" not in path


def test_exported_symbols(sdk: Path) -> None:
    with (sdk / "lib/libpteron.so").open("rb") as file:
        section = ELFFile(file).get_section_by_name(".dynsym")
        assert isinstance(section, SymbolTableSection)
        names = {
            symbol.name
            for symbol in section.iter_symbols()
            if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_LOCAL"
        }
    c = {name for name in names if not name.startswith("_Z")}
    header = (sdk / "include/pteron/runtime/pteron.h").read_text()
    declared = re.findall(r"^[a-z][a-z0-9_ ]*\**[ *](pteron_\w+)\(", header, re.MULTILINE)
    assert len(declared) == len(set(declared)) and c == set(declared)
    # Functions of the namespace, their static variables, vtables and type information.
    ours = re.compile(r"_Z(TI|TS|TV|GVZ|Z)?N[KO]?6pteron")
    assert not [name for name in names - c if not ours.match(name)]
    assert any("6Module7execute" in name for name in names)


def test_it_is_deterministic() -> None:
    assert ARCHIVE.read_bytes() == SAME.read_bytes()
