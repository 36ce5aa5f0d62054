"""The lists of shims against the libraries and the tests: every name is exported and tested."""

import ctypes
import os
import pathlib
import re
import subprocess

import pytest

from pteron.backends.aoti.ops.shim_list import parse

_BACKENDS = pathlib.Path(__file__).parent.parent.parent.parent
_COMMON = "aoti/shims/shims.inc"
_CPU = "cpu/runtime/shims/shims.inc"
_VECTOR_MATH = "cpu/runtime/vector_math/sleef.inc"
_OPENMP = "cpu/runtime/openmp/openmp.inc"
_MICRO_GEMM = "cpu/runtime/shims/micro_gemm.inc"
_PREFIXES = {"aoti_torch_": "ptrn_torch_", "Sleef_": "ptrn_v", "GOMP_": "ptrn_", "omp_": "ptrn"}


def _names(path: str) -> list[str]:
    return sorted(parse((_BACKENDS / path).read_text(), path, "cpu"))


def _text(*paths: str) -> str:
    return "\n".join((_BACKENDS / path).read_text() for path in paths)


def _private(name: str) -> str:
    (prefix,) = (prefix for prefix in _PREFIXES if name.startswith(prefix))
    renamed = _PREFIXES[prefix] + name.removeprefix(prefix)
    assert len(renamed) == len(name)
    return renamed


def _library() -> str:
    beside = pathlib.Path(__file__).parent.parent / "libcpu_backend.so"
    return os.environ.get("PTERON_CPU_BACKEND_LIBRARY", str(beside))


@pytest.mark.parametrize("path", [_COMMON, _CPU, _VECTOR_MATH, _OPENMP, _MICRO_GEMM])
def test_every_name_is_exported(path: str) -> None:
    library = ctypes.CDLL(_library())
    names = _names(path)
    assert len(names) >= (1 if path == _MICRO_GEMM else 15)
    assert [name for name in names if not hasattr(library, _private(name))] == []
    assert not hasattr(library, "ptrn_torch_no_such_shim")


def test_the_library_brings_its_own_openmp() -> None:
    text = subprocess.run(
        ["readelf", "-dW", _library()], capture_output=True, text=True, check=True
    ).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
    assert needed
    assert [name for name in needed if "omp" in name] == []


def test_every_common_shim_has_a_test() -> None:
    folder = "aoti/runtime/tests/conformance"
    text = _text(*(f"{folder}/{name}_shims.cpp" for name in ("base", "index", "scalar")))
    # Where the formatter breaks a line of a macro is no part of a name.
    text = re.sub(r"\(\s+", "(", text.replace("\\\n", " "))

    def is_tested(name: str) -> bool:
        short = name.removeprefix("aoti_torch_")
        number = re.fullmatch(r"(?:item|scalar_to_tensor)_(\w+)", short)
        if number and f"TEST_ROUND_TRIP({number[1]}," in text:
            return True
        return re.search(rf"\bptrn_torch_{short}\b", text) is not None

    # Constants are compared with torch's: backends/aoti/tests/test_shim_signatures.py.
    constants = ("device_type", "dtype", "layout", "memory_format")
    numbers = tuple(f"aoti_torch_{kind}_" for kind in constants)
    names = [name for name in _names(_COMMON) if not name.startswith(numbers)]
    assert [name for name in names if not is_tested(name)] == []


def test_every_vector_function_has_a_test() -> None:
    folder = "cpu/runtime/vector_math/tests/"
    text = _text(folder + "vector_math_checks.h")
    tested = set(re.findall(r"X\((\w+), ?(\w*)", text)) | {("sincos", "_u10")}
    direct = _text(folder + "test_avx2.cpp", folder + "test_avx512.cpp")

    def is_tested(name: str) -> bool:
        if _private(name) in direct:
            return True
        function = re.fullmatch(r"Sleef_(\w+?)(?:f8|d4|f16|d8)(_u\d+)?", name)
        return function is not None and (function[1], function[2] or "") in tested

    assert [name for name in _names(_VECTOR_MATH) if not is_tested(name)] == []
