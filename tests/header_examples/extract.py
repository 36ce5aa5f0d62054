"""Writes a C++ file of the examples at the head of headers, so that they are compiled.

An example is what the first comment of a header has indented. It stands in a namespace of its own;
statements become the body of a function, whose parameters `_PARAMETERS` lists. `...` is left out.
"""

from __future__ import annotations

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
    "runtime/core/error.h": None,
    "runtime/core/evalue.h": "const Tensor& tensor, void (*use)(const Tensor&)",
    "runtime/core/result.h": None,
    "runtime/core/scalar_type.h": "ScalarType dtype, size_t numel",
    "runtime/core/tensor.h": "",
    "runtime/executor/method.h": (
        "const std::shared_ptr<Program>& program, Span<const EValue> inputs"
    ),
    "runtime/executor/method_meta.h": "const std::shared_ptr<Program>& program",
    "runtime/executor/program.h": None,
    "runtime/executor/session.h": "const std::shared_ptr<Program>& program",
    "runtime/kernel/convert.h": (
        "ScalarType dtype, std::byte* data, int64_t step_nbytes, int64_t count, "
        "const float* results"
    ),
    "runtime/kernel/kernel_context.h": "KernelContext& context, size_t nbytes",
    "runtime/kernel/registry.h": None,
    "runtime/kernel/view.h": "const Tensor& input, Span<const int64_t> dims, Tensor& out",
    "runtime/platform/cpu_features.h": "",
    "runtime/platform/log.h": "const char* id, const std::string& reason, void* user",
    "runtime/platform/mapped_file.h": "void (*parse)(Span<const uint8_t>)",
    "runtime/platform/sha256.h": "Span<const uint8_t> bytes",
    "runtime/program_reader/error_list.h": "const char* name, size_t i",
    "runtime/program_reader/load_options.h": "",
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
    return f"{header}\nnamespace pteron::example_{index} {{\n{body}\n}}\n"


def main(argv: list[str]) -> None:
    """Takes the paths of headers and ignores those without an example that can be compiled."""
    found = {}
    for header in argv[1:]:
        for path in _PARAMETERS:
            if header.endswith(path):
                found[path] = example_of(Path(header).read_text(encoding="utf-8"))
    if missing := [path for path in _PARAMETERS if not found.get(path)]:
        sys.exit(f"no example at the head of {', '.join(missing)}; _PARAMETERS names them")
    parts = [compilable(path, found[path], i) for i, path in enumerate(sorted(found))]
    print(_COMMON)
    print("\n".join(parts))


if __name__ == "__main__":
    app.run(main)
