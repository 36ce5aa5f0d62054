"""Shared objects: vectorised, self-contained, the same each time, and clear errors without a
compiler."""

import dataclasses
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch._inductor import cpp_builder, cpu_vec_isa

from pteron.backends.aoti import elf, inductor, toolchain, workers
from pteron.backends.aoti.inductor import Target
from pteron.backends.aoti.inductor.kernel_text import KERNEL_START
from pteron.backends.aoti.inductor.release import release
from pteron.backends.aoti.object_cache import ObjectCache
from pteron.backends.aoti.source_headers import ENTRY_POINTS
from pteron.backends.aoti.toolchain import Machine, ToolchainError

V2 = Machine(("-march=x86-64-v2", "-DCPU_CAPABILITY=DEFAULT"))
V3 = Machine(("-march=x86-64-v3", "-DCPU_CAPABILITY_AVX2"))
V4 = Machine(("-march=x86-64-v4", "-DCPU_CAPABILITY_AVX512"), wide_vectors=True)


class Block(torch.nn.Module):
    """A product whose epilogue calls vector mathematics."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(256, 512)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(x).tanh().exp()


def generate(vector_bits: int) -> inductor.GeneratedCode:
    torch.manual_seed(0)
    program = torch.export.export(Block(), (torch.randn(64, 256),)).run_decompositions()
    return inductor.generate(program, Target("cpu", vector_bits, 2))


#: What is not referred to is not linked.
READ_EMBEDDED = """
extern "C" const char __kernel_start[];
__attribute__((constructor)) static void read() {
  *const_cast<const volatile char*>(__kernel_start);
}
"""


@pytest.fixture(scope="module")
def code() -> inductor.GeneratedCode:
    code = generate(256)
    return dataclasses.replace(code, model=code.model + READ_EMBEDDED)


@pytest.fixture(scope="module")
def shared_object(code: inductor.GeneratedCode) -> bytes:
    return toolchain.build(code, V3, weights_bytes=4096, embedded={"kernel": b"device code"})


def readelf(shared_object: bytes, option: str) -> str:
    with tempfile.NamedTemporaryFile() as file:
        file.write(shared_object)
        file.flush()
        command = ["readelf", "-W", option, file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def needed_libraries(shared_object: bytes) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]", readelf(shared_object, "-d"))


def assembly(kernels: str, machine: Machine) -> str:
    """What the compiler makes of kernels, with the flags that `build` gives it."""
    step = toolchain.BuildStep(toolchain.find_compiler(), machine, "cpu", None)
    source = step.kernels(kernels)
    flags = (*step.common_flags, *source.flags)
    command = [*step.compiler.command, *flags, "-S", "-x", "c++", "-", "-o", "-"]
    text = f'{source.short}{source.header}#line 1 "<stdin>"\n{source.text}'
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout


def test_kernels_are_vectorised(code: inductor.GeneratedCode) -> None:
    text = assembly(code.kernels, V3)
    assert len(re.findall(r"vfmadd\d+ps.*%ymm", text)) >= 16
    assert "%zmm" not in text


def test_the_shared_object_holds_the_vector_instructions(shared_object: bytes, code) -> None:
    # VEX-encoded fused multiply-add, 256 bits, 0F38 map: C4 ?? ?? B8 (vfmadd231ps).
    assert len(re.findall(rb"\xc4[\x42\x62\xc2\xe2].\xb8", shared_object, re.DOTALL)) >= 16


@pytest.mark.parametrize("bits,machine,register", [(256, V3, "ymm"), (512, V4, "zmm")])
def test_products_keep_their_sums_in_registers(bits: int, machine: Machine, register: str) -> None:
    """Without -fno-early-inlining GCC 12 moves a wide accumulator for each multiplication, and a
    narrow one if its micro-GEMM is a function of its own."""
    text = assembly(generate(bits).kernels, machine)
    products = len(re.findall(rf"vfmadd\d+ps.*%{register}", text))
    stack, vector = r"\(%r[sb]p\)", f"%{register}"
    moves = re.findall(rf"vmov[au]p[sd]\s(?:.*{stack}.*{vector}|{vector}.*{stack})", text)
    assert products >= 16
    assert len(moves) < products / 3, (
        f"{len(moves)} moves to and from the stack, {products} products"
    )


def test_the_shared_object_needs_no_torch(shared_object: bytes) -> None:
    libraries = needed_libraries(shared_object)
    assert libraries
    assert not any("torch" in name or "c10" in name for name in libraries)


def test_threads_come_from_the_runtime(shared_object: bytes) -> None:
    assert not any("omp" in name for name in needed_libraries(shared_object))
    assert "GOMP_parallel" in elf.undefined_symbols(shared_object)


def _linked_with(tmp_path: Path, *options: str) -> bytes:
    """A shared object of a compiler that adds options of its own."""
    step = toolchain.build_step(V3, "cpu")
    compiler = dataclasses.replace(step.compiler, command=(*step.compiler.command, *options))
    support = tmp_path / "support.c"
    support.write_text("double used(double x) { return x; }\n")
    return dataclasses.replace(step, compiler=compiler).link(tmp_path, [], support)


def test_libraries_that_a_compiler_adds_are_an_error(tmp_path: Path) -> None:
    assert _linked_with(tmp_path)
    with pytest.raises(ToolchainError, match=r"do not import: libresolv\.so\.2\. See the comp"):
        _linked_with(tmp_path, "-Wl,--no-as-needed", "-lresolv")


def test_run_paths_that_a_compiler_adds_are_removed(tmp_path: Path) -> None:
    found = _linked_with(tmp_path, "-Wl,-rpath,/nowhere")
    (tmp_path / "x.so").write_bytes(found)
    read = subprocess.run(
        ["readelf", "-dW", tmp_path / "x.so"], capture_output=True, text=True, check=True
    ).stdout
    assert "NEEDED" in read or "SYMTAB" in read
    assert "RUNPATH" not in read and "RPATH" not in read


def test_numbers_of_the_host_may_have_half_precision() -> None:
    class Scales(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * x.sum().half().item()

    program = torch.export.export(Scales(), (torch.randn(3),)).run_decompositions()
    shared_object = toolchain.build(inductor.generate(program, Target("cpu", 256, 1)), V3)
    assert "aoti_torch_item_float16" in elf.undefined_symbols(shared_object)


def test_only_shims_are_left_undefined(shared_object: bytes) -> None:
    names = elf.undefined_symbols(shared_object)
    assert "aoti_torch_empty_strided" in names and "Sleef_expf8_u10" in names
    assert all(name.startswith(("aoti_torch_", "Sleef_", "GOMP_", "omp_")) for name in names)


def test_only_what_the_runtime_calls_is_exported(shared_object: bytes) -> None:
    symbols = re.findall(r" DEFAULT +(\w+) ([^\s@]+)", readelf(shared_object, "--dyn-syms"))
    exported = {name for section, name in symbols if section != "UND"}
    container = (
        "CreateWithDevice Delete GetConstantDataSize GetConstantFromFolded GetConstantName "
        "GetNumConstants GetNumInputs GetNumOutputs RunSingleThreaded "
        "UpdateUserManagedConstantBufferPairs"
    )
    assert exported == {f"AOTInductorModelContainer{name}" for name in container.split()} | {
        *("AOTInductorGetLastError", "AOTInductorModelUpdateConstantsFromBlob"),
        "pteron_set_tracing",
    }


def test_a_model_reads_few_headers() -> None:
    step = toolchain.BuildStep(toolchain.find_compiler(), V4, "cpu", None)
    source = step.model("")
    command = [*step.compiler.command, *step.common_flags, *source.flags, "-E", "-x", "c++", "-"]
    done = subprocess.run(command, input=source.header, capture_output=True, text=True, check=True)
    assert "/aoti_runtime/model_base.h" in done.stdout
    for name in ("bits/regex.h", "bits/fs_path.h", "immintrin.h"):
        assert f"/{name}" not in done.stdout


#: What headers declare that only some kernels use, and what of their text needs it.
RARELY_USED = {
    "streambuf": "",
    "__shared_count": "mm_get_thread_blocking",
    "_Rb_tree": "mm_get_thread_blocking",
    "_mm_sha1msg1_epu32": 'target("avx512bf16")',
}


@pytest.mark.parametrize("kernels", sorted(set(RARELY_USED.values())))
@pytest.mark.parametrize("machine", [V2, V3, V4])
def test_kernels_read_few_headers(machine: Machine, kernels: str) -> None:
    step = toolchain.BuildStep(toolchain.find_compiler(), machine, "cpu", None)
    source = step.kernels(f"// {kernels}\n")
    assert source.short
    command = [*step.compiler.command, *step.common_flags, *source.flags, "-x", "c++", "-"]
    text = source.short + source.header + source.text
    done = subprocess.run([*command, "-E"], input=text, capture_output=True, text=True, check=True)
    subprocess.run([*command, "-fsyntax-only"], input=text, text=True, check=True)
    for name, user in RARELY_USED.items():
        is_read = re.search(rf"(class|struct|int|^) *\b{name}\b", done.stdout, re.MULTILINE)
        is_expected = user == kernels != "" and not (machine is V2 and name.startswith("_mm"))
        assert bool(is_read) == is_expected, name


@pytest.mark.parametrize("bits,machine", [(256, V3), (512, V4)])
def test_few_headers_make_the_same_code(
    bits: int, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = generate(bits).kernels

    def instructions() -> list[str]:
        """In any order, since that of functions differs, without labels and what runs at load."""
        text = re.sub(r"\n_GLOBAL__sub_I.*?\t\.size\t", "", assembly(kernels, machine), flags=re.S)
        return sorted(re.sub(r"\.L\w*\d", ".L", line) for line in re.findall(r"\n\t\w.*", text))

    short = instructions()
    monkeypatch.setattr(toolchain, "short_headers", lambda kernels: "")
    assert short == instructions()


def test_what_needs_more_headers_gets_them(tmp_path: Path) -> None:
    step = toolchain.build_step(V3, "cpu", ObjectCache(tmp_path, 1 << 30))
    text = """#include <sstream>
    extern "C" int kernel(int x) {
      std::ostringstream text;
      text << x;
      return static_cast<int>(text.str().size());
    }"""
    source = step.kernels(text)
    assert source.short and b"basic_ostringstream" in step.compile(source)
    with pytest.raises(ToolchainError, match="not_declared"):
        step.compile(step.kernels("int x = not_declared;"))


@pytest.mark.parametrize("version,text", [("2.99.0", None), ("2.13.0", "throw Error(msg);")])
def test_another_release_gets_all_headers(
    version: str, text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert inductor.short_headers("")
    monkeypatch.setattr(torch, "__version__", version)
    if text is not None:
        header = tmp_path / "include/c10/util/Exception.h"
        header.parent.mkdir(parents=True)
        header.write_text(text)
        monkeypatch.setattr(torch, "__file__", str(tmp_path / "__init__.py"))
    assert inductor.short_headers("") == ""


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("cpu", -1),
        ("cuda:0", 0),
        ("cuda:12", 12),
        ("cuda:", None),
        ("cuda:1x", None),
        ("tpu", None),
    ],
)
def test_names_of_devices_are_read_as_torch_reads_them(
    name: str, index: int | None, tmp_path: Path
) -> None:
    """By our replacement of <regex> and by <regex> itself."""
    step = toolchain.BuildStep(toolchain.find_compiler(), V3, "cpu", None)
    shims = 'extern "C" int32_t aoti_torch_device_type_{0}() {{ return 0; }}\n'
    text = "".join(shims.format(device) for device in ("cpu", "cuda"))
    text += f"""int main() {{
      int32_t type = 0, index = 0;
      try {{
        torch::aot_inductor::parse_device_str("{name}", type, index);
      }} catch (const std::exception&) {{
        return 100;
      }}
      return index & 0xff;
    }}"""
    codes = set()
    for headers in ("", inductor.standard_headers("cpu")):
        source = headers + "#include <torch/csrc/inductor/aoti_include/cpu.h>\n" + text
        flags = [*step.common_flags, "-ffunction-sections", "-Wl,--gc-sections"]
        program = tmp_path / "program"
        command = [*step.compiler.command, *flags, "-x", "c++", "-", "-o", str(program)]
        subprocess.run(command, input=source, text=True, check=True)
        codes.add(subprocess.run([str(program)], check=False).returncode)
    assert codes == {100 if index is None else index & 0xFF}


def test_embedded_code_is_there_and_no_path_is(shared_object: bytes) -> None:
    assert b"device code" in shared_object
    for folder in (os.path.dirname(torch.__file__), os.getcwd(), os.path.expanduser("~")):
        assert folder.encode() not in shared_object


def test_from_what_was_prepared_the_same_shared_object_is_made(
    code, shared_object: bytes, tmp_path: Path, monkeypatch
) -> None:
    cold = ObjectCache(tmp_path, 1 << 30)
    given: list[str | None] = []
    run = toolchain.BuildStep._run

    def record(step, arguments, text=None, folder=None):
        given.append(text)
        run(step, arguments, text, folder)

    monkeypatch.setattr(toolchain.BuildStep, "_run", record)
    toolchain.build_step(V3, "cpu", cold).compile_all(code)
    texts = [*toolchain.split_kernels(code.kernels), code.model + ENTRY_POINTS]
    assert sorted((text or "").partition('#line 1 "<stdin>"\n')[2] for text in given) == sorted(
        texts
    )
    given.clear()

    def build() -> bytes:
        embedded = {"kernel": b"device code"}
        return toolchain.build(code, V3, weights_bytes=4096, embedded=embedded, cache=cold)

    assert build() == shared_object
    assert given == [None]  # it only links
    # Edited objects are not linked.
    for path in tmp_path.rglob("*.o"):
        path.write_bytes(b"other code")
    assert build() == shared_object


@pytest.mark.parametrize("name", ["CPATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX"])
def test_what_reaches_the_compiler_is_in_the_key(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = toolchain.build_step(V3, "cpu", ObjectCache(tmp_path, 1 << 30))
    monkeypatch.delenv(name, raising=False)
    without = step._key("object", step.kernels(""))
    monkeypatch.setenv(name, "/one")
    one = step._key("object", step.kernels(""))
    monkeypatch.setenv(name, "/other")
    assert len({without, one, step._key("object", step.kernels(""))}) == 3
    monkeypatch.delenv(name)
    monkeypatch.setenv("LANG", "C.UTF-8")
    assert step._key("object", step.kernels("")) == without


def test_a_cached_object_is_not_compiled_again(code, shared_object: bytes, monkeypatch) -> None:
    commands: list[str] = []
    run = workers.run

    def record(command, **options):
        commands.append(" ".join(command))
        return run(command, **options)

    monkeypatch.setattr(workers, "run", record)
    toolchain.build(code, V3, weights_bytes=4096, embedded={"kernel": b"device code"})
    assert len(commands) == 1 and "-shared" in commands[0]


def test_kernels_are_cut_where_one_begins() -> None:
    kernel = KERNEL_START + "x" * 60_000 + "\n"
    files = toolchain.split_kernels("// head\n" + kernel * 5)
    assert "".join(files) == "// head\n" + kernel * 5
    assert [text.count(KERNEL_START) for text in files] == [2, 2, 1]
    assert toolchain.split_kernels("") == []


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CXX", raising=False)
    toolchain.find_compiler.cache_clear()
    try:
        with pytest.raises(ToolchainError, match=r"none of g\+\+, c\+\+, clang\+\+ .* Install one"):
            toolchain.find_compiler()
        monkeypatch.setenv("CXX", "no-such-compiler")
        with pytest.raises(ToolchainError, match=r"\$CXX is 'no-such-compiler'"):
            toolchain.find_compiler()
    finally:
        toolchain.find_compiler.cache_clear()


@pytest.mark.parametrize("name", ["gcc", "cc", "/folder/x86-gcc-12", "ccache gcc -m64", "g++"])
def test_of_a_c_compiler_the_cxx_compiler_is_taken(monkeypatch, tmp_path: Path, name: str) -> None:
    for file in ("g++", "c++", "x86-g++-12", "ccache"):
        (tmp_path / file).write_text("#!/bin/sh\necho version 1\n")
        (tmp_path / file).chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", name.replace("/folder", str(tmp_path)))
    toolchain.find_compiler.cache_clear()
    try:
        command = " ".join(toolchain.find_compiler().command).replace(f"{tmp_path}/", "")
    finally:
        toolchain.find_compiler.cache_clear()
    assert command == {"cc": "c++"}.get(name, name.removeprefix("/folder/").replace("gcc", "g++"))


def test_a_refusal_of_the_compiler_shows_its_message(tmp_path: Path) -> None:
    step = toolchain.BuildStep(toolchain.find_compiler(), V3, "cpu", ObjectCache(tmp_path, 1 << 20))
    with pytest.raises(ToolchainError) as caught:
        step.compile(toolchain.Source("", "#error this is wrong\n", ("-O1",)))
    assert "this is wrong" in str(caught.value) and "command: " in str(caught.value)


#: Flags of GCC that our kernels are compiled with and Inductor's are not, by torch release.
#: `-fno-trapping-math`: vectors of comparisons; what is computed is the same. (Inductor's list ends
#: with a flag that takes it back.) `-fmath-errno`: sin(atan(x)) is not simplified (issue 143978).
_OTHER_FLAGS = {
    "2.11": {"-ftrapping-math": "[disabled]", "-fmath-errno": "[enabled]"},
    "2.12": {"-ftrapping-math": "[disabled]", "-fmath-errno": "[enabled]"},
    "2.13": {"-ftrapping-math": "[disabled]"},
    "2.14": {"-ftrapping-math": "[disabled]"},
}


def test_floating_point_is_compiled_as_inductor_compiles_it() -> None:
    compiler = toolchain.find_compiler()
    if compiler.is_clang:
        pytest.skip("Clang does not say what its flags amount to")
    step = toolchain.BuildStep(compiler, V3, "cpu", None)  # type: ignore[arg-type]
    cflags = cpp_builder.CppTorchOptions(vec_isa=cpu_vec_isa.VecAVX2(), aot_mode=True).get_cflags()
    theirs = [f"-{flag}" for flag in cflags if flag.startswith(("f", "O"))]
    ours = [*step.common_flags, *step.kernels("").flags]

    def effect(flags: Sequence[str]) -> dict[str, str]:
        used = [f for f in flags if f.startswith(("-f", "-O")) and "prefix-map" not in f]
        query = [*compiler.command, "-Q", "--help=optimizers,common", *used]
        lines = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split("\n")
        return dict(line.split() for line in lines if len(line.split()) == 2)

    expected = effect(theirs)
    found = {name: value for name, value in effect(ours).items() if expected[name] != value}
    mapped = {"-fomit-frame-pointer", "-fgnu-unique"}  # neither has to do with numbers
    assert {name: found[name] for name in found.keys() - mapped} == _OTHER_FLAGS[release()]
