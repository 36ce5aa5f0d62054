"""What a few wheels hold besides Python: headers, libraries and programs.

`headers` is a directory of the wheel and becomes the cc_library @HUB//NAME:headers; each of
`files` becomes a target @HUB//NAME:TARGET.
"""

def _layout(headers = "", files = {}):
    return struct(headers = headers, files = files)

LAYOUTS = {
    "atheris": _layout(files = {"libfuzzer": "libclang_rt.fuzzer_no_main.a"}),
    "clang_format": _layout(files = {"program": "clang_format/data/bin/clang-format"}),
    "cmake": _layout(files = {"program": "cmake/data/bin/cmake"}),
    "executorch": _layout(
        headers = "executorch/include",
        files = {"library": "executorch/lib/libexecutorch.so"},
    ),
    "numpy": _layout(headers = "numpy/_core/include"),
    "pybind11": _layout(headers = "pybind11/include"),
    "ruff": _layout(files = {"program": "bin/ruff"}),
    "scipy_openblas32": _layout(
        headers = "scipy_openblas32/include",
        files = {"library": "scipy_openblas32/lib/libscipy_openblas.so"},
    ),
    "torch": _layout(headers = "torch/include"),
}

NO_LAYOUT = _layout()
