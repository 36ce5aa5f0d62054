"""Writes a C++ file of the examples at the head of headers, so that they are compiled.

An example is what the first comment of a header has indented. It stands in a namespace of its own;
statements become the body of a function, whose parameters `_PARAMETERS` lists. `...` is left out.
"""

import itertools
import re
import sys
from pathlib import Path

from absl import app

# What the statements of a header's example use and do not declare; None: declarations, no
# statements.
_PARAMETERS: dict[str, str | None] = {
    "runtime/backend/device_map.h": "const std::shared_ptr<Program>& program",
    "runtime/backend/interface.h": None,
    "runtime/backend/named_data_map.h": "const NamedDataMap& map, std::string_view key",
    "runtime/core/device_allocator.h": "size_t nbytes, Device device, const void* host",
    "runtime/core/storage.h": "DeviceAllocator* allocator, size_t nbytes, Device device",
    "runtime/core/element.h": "const Tensor& tensor",
    "runtime/core/error.h": None,
    "runtime/core/evalue.h": "const Tensor& tensor, void (*use)(const Tensor&)",
    "runtime/core/result.h": None,
    "runtime/core/scalar_type.h": "ScalarType dtype, size_t numel",
    "runtime/core/small_float.h": "",
    "runtime/core/strided_copy.h": (
        "void* to, const int64_t* to_strides, const void* from, const int64_t* from_strides, "
        "const int64_t* sizes, size_t dim"
    ),
    "runtime/core/tensor.h": "",
    "runtime/core/tensor_ptr.h": "",
    "runtime/executor/method.h": (
        "const std::shared_ptr<Program>& program, Span<const EValue> inputs"
    ),
    "runtime/executor/method_meta.h": "const std::shared_ptr<Program>& program",
    "runtime/executor/program.h": None,
    "runtime/executor/session.h": "const std::shared_ptr<Program>& program",
    "runtime/module.h": None,
    "runtime/kernel/kernel_context.h": "KernelContext& context, size_t nbytes",
    "runtime/kernel/registry.h": None,
    "runtime/kernel/view.h": "const Tensor& input, int64_t index, Tensor& out",
    "runtime/platform/cpu_features.h": "",
    "runtime/platform/log.h": "const char* id, const std::string& reason, void* user",
    "runtime/platform/mapped_file.h": "void (*parse)(Span<const uint8_t>)",
    "runtime/platform/sha256.h": "Span<const uint8_t> bytes",
    "runtime/program_reader/error_list.h": "const char* name, size_t i",
    "runtime/program_reader/load_options.h": "",
    "backends/aoti/runtime/container/container.h": (
        "std::shared_ptr<SharedObject> object, std::shared_ptr<ContainerScope> scope, "
        "std::vector<NamedConstant> constants, Span<slim::SlimTensor*> inputs, "
        "Span<slim::SlimTensor*> outputs"
    ),
    "backends/aoti/runtime/container/elf_imports.h": "Span<const uint8_t> object",
    "backends/aoti/runtime/container/shared_object.h": (
        "Span<const uint8_t> bytes, const Sha256Digest& digest"
    ),
    "backends/aoti/slim/core/caching_allocator.h": "size_t nbytes",
    "backends/aoti/slim/core/layout.h": "Span<const int64_t> sizes, DType dtype, Device device",
    "backends/aoti/slim/core/scalar.h": "const SlimTensor& tensor, void* pointer",
    "backends/aoti/slim/core/slim_tensor.h": "",
    "backends/aoti/slim/core/storage.h": "size_t nbytes, Device device",
    "backends/aoti/slim/core/tensor_copy.h": "TensorPtr target, TensorPtr source",
    "backends/aoti/slim/cuda/guard.h": (
        "cudaStream_t stream, int device, void (*launch)(cudaStream_t)"
    ),
    "backends/cpu/runtime/kernels/fft.h": "std::complex<float>* row",
    "backends/cpu/runtime/kernels/parallel.h": "int64_t rows",
    "backends/cuda/runtime/cuda_stream.h": "Method* method, cudaStream_t mine, int device",
    "backends/cuda/runtime/kernels/matrix_layout.h": "void (*copy_to_contiguous)()",
    "backends/cuda/runtime/strided_copy.h": (
        "void* y, const void* x, int64_t rows, int64_t cols, int64_t y_row_stride, "
        "int64_t x_row_stride, int64_t x_col_stride, cudaStream_t stream"
    ),
}


# What examples of other headers use.
_COMMON = """#include <cstdio>
#include <memory>
#include <utility>

#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"
"""


def example_of(text: str) -> str:
    """The indented lines of a header's first comment; empty if there are none."""
    comment = itertools.takewhile(lambda line: line.startswith("//"), text.splitlines())
    return "\n".join(line[5:] for line in comment if line.startswith("//   "))


def compilable(path: str, example: str, index: int) -> str:
    """An example with its header and what has to be around it."""
    includes = [f'#include "pteron/{path}"', *re.findall(r"^#include.*$", example, re.MULTILINE)]
    body = re.sub(r"^#.*$", "", example, flags=re.MULTILINE).replace("...", "")
    parameters = _PARAMETERS[path]
    if parameters is not None:
        body = f"Error run({parameters}) {{\n{body}\nreturn Error::Ok;\n}}"
    header = "\n".join(includes)
    namespaces = [f for f in path.split("/")[:3] if f in ("aoti", "cpu", "cuda", "slim")]
    scope = "::".join(["pteron", *namespaces[-1:], f"example_{index}"])
    return f"{header}\nnamespace {scope} {{\n{body}\n}}\n"


def main(argv: list[str]) -> None:
    """Takes a top folder and the paths of headers, among them those that `_PARAMETERS` names."""
    wanted = [path for path in _PARAMETERS if path.split("/")[0] == argv[1]]
    found = {}
    for header in argv[2:]:
        for path in wanted:
            if header.endswith(path):
                found[path] = example_of(Path(header).read_text(encoding="utf-8"))
    if missing := [path for path in wanted if not found.get(path)]:
        sys.exit(f"no example at the head of {', '.join(missing)}; _PARAMETERS names them")
    parts = [compilable(path, found[path], i) for i, path in enumerate(sorted(found))]
    print(_COMMON)
    print("\n".join(parts))


if __name__ == "__main__":
    app.run(main)
