"""The arrows between the folders: on the whole tree, and on files made to break each rule."""

from __future__ import annotations

import pytest

from tests.layering.layers import ALLOWED, layer_of, violations
from tools.lint import source_tree

_SOURCES = (".cpp", ".cu", ".cuh", ".h", ".inc", ".mm", ".py")


def test_the_tree_keeps_its_arrows() -> None:
    files = source_tree.files(source_tree.root())
    sources = {name: path for name, path in files.items() if name.endswith(_SOURCES)}
    assert len(sources) > 100, "the source tree is not here"
    wrong = [
        line
        for name, path in sorted(sources.items())
        for line in violations(name, path.read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_every_layer_of_the_table_exists() -> None:
    present = {layer_of(name) for name in source_tree.files(source_tree.root())}
    # Apple's backend comes later; its arrows stand already.
    assert set(ALLOWED) - {"backends/apple/metal"} <= present


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("runtime/core/tensor.h", '#include "runtime/backend/interface.h"'),
        ("runtime/backend/interface.h", '#include "runtime/executor/method.h"'),
        ("runtime/platform/log.cpp", '  #  include "runtime/kernel/registry.h"'),
        ("runtime/executor/method.cpp", '#include "backends/aoti/aoti_delegate.h"'),
        ("runtime/executor/method.cpp", "// the CudaBackend does this"),
        ("runtime/program.py", 'BACKENDS = ["XnnBackend", "CpuBackend"]'),
        ("runtime/program.py", "x = native.CudaBackend()"),
        ("runtime/__init__.py", "def load():\n    import backends.cpu"),
        ("runtime/__init__.py", "from exir import emit"),
        ("backends/aoti/delegate.cpp", '#include "runtime/executor/method.h"'),
        ("backends/aoti/delegate.h", '#include "backends/cpu/cpu_backend.h"'),
        ("backends/aoti/aoti_backend.py", "from backends.cuda.options import CudaOptions"),
        ("backends/aoti/aoti_backend.py", "from backends import cuda"),
        ("backends/cpu/cpu_backend.cpp", '#include "backends/cuda/runtime/stream.h"'),
        ("backends/cuda/cuda_backend.py", "import backends.cpu.cpu_options as options"),
        ("backends/apple/metal/metal_backend.mm", '#include "backends/cuda/stream.h"'),
        ("exir/emit/emitter.py", "from runtime.executor import x"),
        ("exir/emit/emitter.py", "import backends.aoti"),
        ("exir/tests/test_emitter.py", "from backends.cpu import CpuBackend"),
        ("third_party/cuda/x.h", '#include "runtime/core/error.h"'),
        ("tools/bootstrap/apt.py", "import exir.emit"),
    ],
)
def test_a_forbidden_arrow_is_found(path: str, text: str) -> None:
    (line,) = violations(path, text)
    assert line.startswith(f"{path}:{1 + text.count(chr(10))}: ")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("runtime/core/tensor.cpp", '#include "runtime/core/tensor.h"\n#include <vector>'),
        ("runtime/executor/method.cpp", '#include "runtime/schema/program_generated.h"'),
        ("runtime/executor/method.cpp", '// #include "backends/cuda/stream.h"'),
        ("runtime/program.py", 'def load():\n    """As `{"CpuBackend": {}}`."""'),
        ("backends/aoti/delegate.cpp", '#include "runtime/backend/interface.h"'),
        ("backends/cuda/cuda_backend.py", "from backends.aoti.aoti_backend import AotiBackend"),
        ("backends/cuda/cuda_backend.py", '"""Like backends.cpu."""\nimport torch'),
        ("backends/cpu/tests/test_cpu.py", "from tests.models import networks"),
        ("exir/emit/emitter.py", "from runtime.schema import program_generated"),
        ("tools/runner/runner.cpp", '#include "runtime/executor/program.h"'),
        ("examples/quickstart/main.py", "from backends.cpu import CpuPartitioner"),
    ],
)
def test_an_allowed_arrow_is_not(path: str, text: str) -> None:
    assert violations(path, text) == []
