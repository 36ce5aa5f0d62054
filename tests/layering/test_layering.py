"""The dependencies between the folders: on the whole tree, and on files made to break each rule."""

import pytest

from tests.layering.import_cycles import import_cycle
from tests.layering.layers import ALLOWED, Tree, bare_names, folder_cycle, line_of, violations
from tools.lint import source_tree

_SOURCES = (".cpp", ".cu", ".cuh", ".h", ".inc", ".mm", ".py")
_FILES = source_tree.files(source_tree.root())
_TREE = Tree(_FILES)


@pytest.fixture(name="sources", scope="module")
def _sources() -> dict[str, str]:
    named = sorted((name, path) for name, path in _FILES.items() if name.endswith(_SOURCES))
    assert len(named) > 100, "the source tree is not here"
    return {name: path.read_text(encoding="utf-8") for name, path in named}


def test_the_tree_keeps_to_the_table(sources: dict[str, str]) -> None:
    wrong = [line for item in sources.items() for line in violations(*item, _TREE)]
    wrong += [line for item in sources.items() for line in bare_names(*item)]
    assert not wrong, "\n" + "\n".join(wrong)


def test_no_folder_uses_itself_by_way_of_others(sources: dict[str, str]) -> None:
    graph = _TREE.graph(sources)
    assert len(graph) > 50
    assert graph["runtime/kernel/portable"] == {"runtime/core", "runtime/kernel"}
    assert folder_cycle(graph) == ""


def test_no_module_imports_itself_by_way_of_others(sources: dict[str, str]) -> None:
    assert "exir/program.py" in sources
    assert import_cycle(sources) == ""


def test_every_line_of_the_table_is_of_a_folder() -> None:
    assert set(ALLOWED) <= {line_of(name) for name in _FILES}
    assert set().union(*ALLOWED.values()) <= set(ALLOWED)


def test_the_table_has_no_cycle() -> None:
    assert folder_cycle({line: allowed - {line} for line, allowed in ALLOWED.items()}) == ""


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("runtime/core/tensor.h", '#include "pteron/runtime/backend/interface.h"'),
        ("runtime/backend/interface.h", '#include "pteron/runtime/executor/method.h"'),
        ("runtime/platform/log.cpp", '  #  include "pteron/runtime/kernel/registry.h"'),
        ("runtime/executor/method.cpp", '#include "pteron/backends/aoti/runtime/delegate.h"'),
        ("runtime/executor/method.cpp", "// the CudaBackend does this"),
        ("runtime/program.py", 'BACKENDS = ["XnnBackend", "CpuBackend"]'),
        ("runtime/program.py", "x = native.CudaBackend()"),
        ("runtime/__init__.py", "def load():\n    import pteron.backends.cpu"),
        ("runtime/__init__.py", "from pteron.exir import emit"),
        ("backends/aoti/runtime/delegate.cpp", '#include "pteron/runtime/executor/method.h"'),
        ("backends/aoti/runtime/delegate.h", '#include "pteron/backends/cpu/cpu_backend.h"'),
        ("backends/aoti/aoti_backend.py", "from pteron.backends.cuda.options import CudaOptions"),
        ("backends/aoti/aoti_backend.py", "from pteron.backends import cuda"),
        ("backends/aoti/inductor/cpu.py", "from pteron.backends.aoti import payload"),
        ("backends/aoti/inductor/cpu.py", "from pteron.backends.aoti.passes import attention"),
        (
            "backends/aoti/ops/convolution/convolution.py",
            "from pteron.exir.operators import decompositions",
        ),
        ("backends/aoti/passes/aliases.py", "from pteron.backends.aoti import inductor"),
        ("backends/aoti/slim/core/dtype.h", '#include "pteron/backends/aoti/ops/ops.h"'),
        ("backends/cpu/cpu_backend.cpp", '#include "pteron/backends/cuda/runtime/stream.h"'),
        ("backends/cuda/cuda_backend.py", "import pteron.backends.cpu.cpu_options as options"),
        ("backends/apple/metal/metal_backend.mm", '#include "pteron/backends/cuda/stream.h"'),
        ("exir/emit/emitter.py", "from pteron.runtime.executor import x"),
        ("exir/emit/emitter.py", "import pteron.backends.aoti"),
        ("exir/emit/emitter.py", "from pteron.exir.program import to_edge"),
        ("exir/emit/emitter.py", "from pteron.exir.backend import utils"),
        ("exir/graph/kernels.py", "from pteron.exir.passes import run"),
        ("exir/graph/exported_program.py", "import pteron.exir.explain"),
        ("exir/graph/lowered_backend_module.py", "from pteron.exir.backend import backend_details"),
        ("exir/tests/test_emitter.py", "from pteron.backends.cpu import CpuBackend"),
        ("third_party/cuda/x.h", '#include "pteron/runtime/core/error.h"'),
        ("tools/bootstrap/apt.py", "import pteron.exir.emit"),
        ("runtime/python/program.py", "from pteron import Runtime"),
        ("runtime/python/program.py", "from pteron import exir"),
    ],
)
def test_a_forbidden_dependency_is_found(path: str, text: str) -> None:
    (line,) = violations(path, text, _TREE)
    assert line.startswith(f"{path}:{1 + text.count(chr(10))}: ")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("runtime/core/tensor.cpp", '#include "pteron/runtime/core/tensor.h"\n#include <vector>'),
        ("runtime/executor/method.cpp", '#include "pteron/runtime/schema/program_generated.h"'),
        ("runtime/executor/method.cpp", '// #include "pteron/backends/cuda/stream.h"'),
        ("runtime/program.py", 'def load():\n    """As `{"CpuBackend": {}}`."""'),
        ("backends/aoti/runtime/delegate.cpp", '#include "pteron/runtime/backend/interface.h"'),
        (
            "backends/cuda/cuda_backend.py",
            "from pteron.backends.aoti.aoti_backend import AotiBackend",
        ),
        ("backends/cuda/cuda_backend.py", '"""Like pteron.backends.cpu."""\nimport torch'),
        ("backends/cpu/tests/test_cpu.py", "from tests.models import networks"),
        ("exir/_serialize/flatbuffer.py", "from pteron.runtime.schema import program_generated"),
        ("exir/explain.py", "from pteron.exir.backend.utils import get_delegates"),
        ("tools/runner/runner.cpp", '#include "pteron/runtime/executor/program.h"'),
        ("examples/quickstart/main.py", "from pteron.backends.cpu import CpuPartitioner"),
    ],
)
def test_an_allowed_dependency_is_not(path: str, text: str) -> None:
    assert violations(path, text, _TREE) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("runtime/core/tensor.cpp", '#include "runtime/core/tensor.h"'),
        ("tools/runner/values.cpp", '#include "tools/runner/values.h"'),
        ("exir/program.py", "from exir.config import EdgeCompileConfig"),
        ("tests/e2e/test_gpt.py", "def test():\n    import runtime"),
    ],
)
def test_a_name_without_pteron_is_found(path: str, text: str) -> None:
    (line,) = bare_names(path, text)
    assert line.startswith(f"{path}:{1 + text.count(chr(10))}: ")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("runtime/core/tensor.cpp", '#include "pteron/runtime/core/tensor.h"\n#include <vector>'),
        ("exir/program.py", "from pteron import exir\nimport pteron.runtime"),
        ("tests/e2e/test_gpt.py", "from tests.models import gpt"),
        ("tests/downstream/workspace/x.cpp", '#include "runtime/core/error.h"'),
    ],
)
def test_a_name_with_pteron_is_right(path: str, text: str) -> None:
    assert bare_names(path, text) == []


@pytest.mark.parametrize(
    ("there", "back"),
    [
        ('#include "pteron/runtime/b/b.h"', '#include "pteron/runtime/a/a.h"'),
        ("from pteron.runtime.b import f", "def f():\n    from pteron.runtime.a import g"),
        ("from pteron.runtime import b", "if TYPE_CHECKING:\n    import pteron.runtime.a.c"),
    ],
)
def test_a_cycle_of_folders_is_found(there: str, back: str) -> None:
    ending = ".h" if "#" in there else ".py"
    sources = {f"runtime/a/a{ending}": there, f"runtime/b/b{ending}": back}
    tree = Tree([*sources, "runtime/b/__init__.py"])
    assert folder_cycle(tree.graph(sources)).count(" is used by ") == 2
    assert folder_cycle(tree.graph({f"runtime/a/tests/a{ending}": there})) == ""


def test_a_folder_without_a_line_is_found() -> None:
    (line,) = violations("runtime/new/new.cpp", "", _TREE)
    assert line == "runtime/new/new.cpp:1: runtime/new has no line in tests/layering/layers.py"


@pytest.mark.parametrize(
    "back",
    [
        "from pteron.exir import a",
        "from pteron.exir.a import f",
        "def f():\n    import pteron.exir.a",
        "if TYPE_CHECKING:\n    from pteron.exir.a import f",
    ],
)
def test_a_cycle_of_imports_is_found(back: str) -> None:
    sources = {"exir/a.py": "from pteron.exir.b import c", "exir/b/__init__.py": back}
    assert import_cycle(sources) in (
        "pteron.exir.a is imported by pteron.exir.b is imported by pteron.exir.a",
        "pteron.exir.b is imported by pteron.exir.a is imported by pteron.exir.b",
    )


def test_modules_of_a_package_may_import_each_other_through_it() -> None:
    sources = {
        "exir/__init__.py": "from pteron.exir.a import f",
        "exir/a.py": "import torch\nfrom pteron.exir import b",
        "exir/b.py": "",
        "tests/b.py": "import pteron.exir",
    }
    assert import_cycle(sources) == ""
