"""The folders of the source tree and which of them may depend on which.

A folder depends on another when a C++ file of it includes a header of the other, or a Python file
imports a module of it, wherever the import stands. Every folder with sources has a line in the
table; `a/*` is the line of the folders in `a` that have none of their own. Tests (folders `tests`
and `testing`) have none: they may use what their unit, as `backends/cpu`, is built from, and
helpers of other tests, which only tests use.

Headers are known as `pteron/<path>`, modules of backends, exir and runtime as `pteron.<path>`.
"""

import ast
import graphlib
import re
from collections.abc import Iterable, Iterator, Mapping

_CORE = frozenset({"runtime/core", "runtime/platform"})
_SEAM = _CORE | {"runtime/backend", "runtime/schema"}
_EXECUTOR = _SEAM | {"runtime/executor", "runtime/kernel", "runtime/program_reader"}
_EXIR_BELOW = frozenset(f"exir/{name}" for name in "_serialize backend graph operators".split())
_EXIR = _EXIR_BELOW | {"exir", "exir/emit", "exir/passes", "exir/verification"}
_FAMILIES = "backends/aoti/ops/*"
# Tables of operators: each in the folder of its family, included by what is generated from all.
_TABLES = "backends/aoti/ops/*.inc"
_OPS = frozenset({"backends/aoti/ops", _TABLES, _FAMILIES})
_SHIMS = frozenset({"backends/aoti/shims", "backends/aoti/slim/core"})
_AOTI_PYTHON = frozenset({"backends/aoti", "backends/aoti/inductor", "backends/aoti/passes"}) | _OPS
_DEVICE = _SEAM | _SHIMS | {"backends/aoti/runtime"}
# Shims of operators, which every backend has.
_DEVICE_SHIMS = _CORE | _SHIMS | _OPS
# Module of the backends that `pteron cache` uses.
_CACHE = "backends/aoti/object_cache.py"

# folder or file -> what it may depend on besides itself
ALLOWED: dict[str, frozenset[str]] = {
    # The runtime, from the bottom up. None of it names a backend.
    "runtime/core": frozenset(),
    "runtime/platform": _CORE,
    "runtime/schema": frozenset(),
    "runtime/backend": _CORE,
    "runtime/kernel": _CORE | {"runtime/backend"},
    "runtime/kernel/portable": _CORE | {"runtime/kernel"},
    "runtime/program_reader": _SEAM,
    "runtime/executor": _EXECUTOR,
    "runtime/python": _EXECUTOR,
    "runtime/trust": _CORE | {"runtime", "runtime/program_reader"},
    "runtime": _EXECUTOR | {"runtime/python"},
    # Lowering: graphs, the file format that the runtime reads, and a run of what was lowered.
    "exir/_serialize": frozenset({"runtime/schema"}),
    "exir/graph": frozenset({"exir/_serialize"}),
    "exir/operators": frozenset({"exir/graph"}),
    "exir/passes": frozenset({"exir/graph"}),
    "exir/backend": frozenset({"exir/_serialize", "exir/graph", "exir/passes"}),
    "exir/emit": frozenset({"exir/_serialize", "exir/graph", "exir/passes"}),
    "exir/verification": frozenset({"exir/_serialize", "exir/backend", "exir/graph", "runtime"}),
    "exir": _EXIR,
    # What backends share, then the backends, which never depend on each other.
    "backends": frozenset(),
    "backends/aoti/slim/core": _CORE,
    "backends/aoti/slim/cuda": _CORE,
    "backends/aoti/schema": frozenset(),
    "backends/aoti/shims": _CORE | {"backends/aoti/slim/core"},
    _TABLES: frozenset(),
    "backends/aoti/ops": _CORE | _SHIMS | {_TABLES},
    _FAMILIES: _DEVICE_SHIMS,
    "backends/aoti/runtime/container": _CORE | _SHIMS,
    "backends/aoti/runtime": _DEVICE | {"backends/aoti/runtime/container", "backends/aoti/schema"},
    "backends/aoti/inductor": _OPS | {"exir/graph"},
    "backends/aoti/passes": _OPS | {"exir/graph", "exir/operators"},
    _CACHE: frozenset(),
    "backends/aoti": _AOTI_PYTHON | _EXIR_BELOW | {"backends/aoti/schema", "exir", _CACHE},
    "backends/cpu/runtime/openmp": _CORE | _SHIMS,
    "backends/cpu/runtime/vector_math": _SHIMS,
    "backends/cpu/runtime/kernels": _CORE | _SHIMS | {_FAMILIES, "backends/cpu/runtime/openmp"},
    "backends/cpu/runtime/shims": _DEVICE_SHIMS | {"backends/cpu/runtime/kernels"},
    "backends/cpu/runtime": _DEVICE
    | {f"backends/cpu/runtime/{folder}" for folder in ("kernels", "openmp", "shims")},
    "backends/cpu/passes": _AOTI_PYTHON | _EXIR,
    "backends/cpu": _AOTI_PYTHON | _EXIR | {"backends/cpu/passes", "backends/cpu/runtime"},
    "backends/cuda/runtime/platform": _CORE,
    "backends/cuda/runtime": _DEVICE
    | {"backends/aoti/slim/cuda", "backends/cuda/runtime/platform"},
    "backends/cuda/runtime/kernels": _CORE
    | {"backends/cuda/runtime", "backends/cuda/runtime/platform"},
    "backends/cuda/runtime/shims": _DEVICE_SHIMS
    | {"backends/aoti/slim/cuda", "backends/cuda/runtime"}
    | {"backends/cuda/runtime/kernels", "backends/cuda/runtime/platform"},
    "backends/cuda": _AOTI_PYTHON | _EXIR,
    "backends/apple/metal/runtime": _DEVICE,
    "backends/apple/metal/runtime/darwin": frozenset({"backends/apple/metal/runtime"}),
    "backends/apple/metal/runtime/shims": _DEVICE_SHIMS | {"backends/apple/metal/runtime"},
    "backends/apple/metal": _AOTI_PYTHON | _EXIR,
    "backends/apple": frozenset(),
    "backends/example": frozenset(),
    "backends/example/blas/schema": frozenset(),
    "backends/example/blas/runtime": _SEAM | {"backends/example/blas/schema"},
    "backends/example/blas": _EXIR | {"backends/example/blas/schema"},
    # The public package of Python.
    "python/pteron": frozenset(
        {"backends/apple/metal", "backends/cpu", "backends/cuda", "exir", "runtime"}
    ),
    "python/pteron/exporter": _EXIR | {"python/pteron"},
    "python/pteron/llm": _EXIR | {"python/pteron", "python/pteron/exporter", "runtime"},
    "python/pteron/asr": _EXIR
    | {"python/pteron", "python/pteron/exporter", "python/pteron/llm", "runtime"},
    "python/pteron/command": _EXIR
    | {"python/pteron", "python/pteron/asr", "python/pteron/exporter", "python/pteron/llm"}
    | {"runtime"}
    | {"runtime/python", _CACHE},
    # C++ over the runtime.
    "extension/asr/runner": _CORE | {"extension/llm/runner", "runtime"},
    "extension/llm/runner": _CORE | {"runtime"},
    "extension/llm/tokenizer": _CORE | {"extension/llm/runner", "runtime"},
    "python/pteron/ray": frozenset(
        {"python/pteron", "python/pteron/llm", "runtime", "runtime/python"}
    ),
    "python/pteron/mlserver": frozenset({"python/pteron/ray", "runtime", "runtime/python"}),
    # Third-party code and developer tools depend on no layer.
    "third_party/*": frozenset(),
    "tools/*": frozenset(),
    # Programs over the runtime, which choose their backends.
    "tools/pteron": frozenset({"python/pteron/command"}),
    "tools/runner": _EXECUTOR | {"runtime/trust"},
    "examples/*": _EXIR
    | {"backends/aoti/shims", "backends/cpu", "python/pteron", "python/pteron/command", "runtime"}
    | {"extension/llm/runner", "extension/llm/tokenizer"},
}

_TESTS = frozenset({"testing", "tests"})
_PYTHON_FOLDERS = ("backends", "exir", "runtime")
_TOP_FOLDERS = (*_PYTHON_FOLDERS, *"examples extension python tests third_party tools".split())
_PACKAGES = tuple(f"pteron.{folder}" for folder in _PYTHON_FOLDERS)
# Another repository, with names of its own.
_FOREIGN = "tests/downstream/workspace/"
# Helpers of builds and tests, open to all.
_OPEN = ("tools/build/", "tools/lint/")

_BACKEND_NAME = re.compile(r"\b(?:Cpu|Cuda|Metal|cpu_|cuda_|metal_)[Bb]ackend\b")
_TABLE = re.compile(r"backends/aoti/ops/(\w+/)?(?!device)\w+\.inc")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)


class Tree:
    """The files of a source tree, to which includes and imports are resolved."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files = frozenset(files)
        self._folders = {_parent(file) for file in self._files}

    def find(self, used: str) -> str:
        """The file that a header or module of `uses` is; for one of the build, one beside it."""
        if used in self._files:
            return used
        if used.endswith(".py"):
            module = used.removesuffix(".py")
            for file in (f"{module}/__init__.py", f"{_parent(module)}.py"):
                if file in self._files:
                    return file
            used = module
        folder = _parent(used)
        while folder and folder not in self._folders:
            folder = _parent(folder)
        return f"{folder}/"

    def graph(self, sources: Mapping[str, str]) -> dict[str, set[str]]:
        """Folder -> other folders that its sources, texts by path, use; without tests."""
        graph: dict[str, set[str]] = {}
        for path, text in sources.items():
            if not is_test(path) and "/" in path:
                used = {_parent(self.find(file)) for _, file in uses(path, text)}
                graph.setdefault(_parent(path), set()).update(used - {_parent(path)})
        return graph


def folder_cycle(graph: Mapping[str, Iterable[str]]) -> str:
    """One cycle, as a line for a person; empty if there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return " is used by ".join(error.args[1])
    return ""


def is_test(path: str) -> bool:
    return not _TESTS.isdisjoint(path.split("/")[:-1])


def line_of(path: str) -> str:
    """The line of the table for a file; empty if there is none."""
    folder = _parent(path)
    return next((x for x in (path, folder, f"{_parent(folder)}/*") if x in ALLOWED), "")


def _parent(path: str) -> str:
    return _TABLES if _TABLE.fullmatch(path) else path.rpartition("/")[0]


def _unit(path: str) -> str:
    """`backends/cpu` or `exir`: what is tested together."""
    return "/".join(path.split("/")[: 2 if path.startswith("backends/") else 1])


def _allowed(path: str) -> frozenset[str]:
    """The lines of the table whose files a file may use."""
    if not is_test(path):
        line = line_of(path)
        return ALLOWED.get(line, frozenset()) | {line}
    found: set[str] = set()
    left = [line for line in ALLOWED if _unit(line) == _unit(path)]
    while left:
        if (line := left.pop()) not in found:
            found.add(line)
            left += ALLOWED[line]
    return frozenset(found)


def uses(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Lines and files of the repository that a C++ or Python file includes or imports.

    A Python module counts as the file `a/b/c.py`; `from a.b import c` counts as `a/b/c.py` too,
    whether `c` is a module or a name.
    """
    if path.endswith(".py"):
        found = _imports(text)
    else:
        found = includes(text)
    for line, used in found:
        file = used.removeprefix("pteron/")
        if file != used and file.split("/")[0] not in _TOP_FOLDERS:
            file = f"python/{used}"  # the public package
        if file.split("/")[0] in _TOP_FOLDERS and "/" in file:
            yield line, file


def bare_names(path: str, text: str) -> list[str]:
    """Lines of one file that include or import ours without `pteron`."""
    if path.startswith(_FOREIGN):
        return []
    is_python = path.endswith(".py")
    folders = _PYTHON_FOLDERS if is_python else _TOP_FOLDERS
    return [
        f"{path}:{line}: {used} is known as pteron/{used}"
        for line, used in (_imports(text) if is_python else includes(text))
        if used.split("/")[0] in folders
    ]


def violations(path: str, text: str, tree: Tree) -> list[str]:
    """The dependencies of one file that the table does not allow, as human-readable lines."""
    if path.split("/")[0] in ("tests", "docs") or "/" not in path:
        return []
    if not is_test(path) and not line_of(path):
        return [f"{path}:1: {_parent(path)} has no line in tests/layering/layers.py"]
    allowed = _allowed(path)
    shown = ", ".join(sorted(allowed - {line_of(path)})) or "no other folder"
    wrong = []
    for line, used in uses(path, text):
        file = tree.find(used)
        if is_test(file):
            right = is_test(path)
        else:
            right = line_of(file) in allowed or file.startswith(_OPEN)
        if not right:
            wrong.append(f"{path}:{line}: uses {used}, but may depend on {shown}")
    if path.startswith("runtime/") and not is_test(path):
        wrong += [
            f"{path}:{line}: the runtime names a backend, {name}"
            for line, name in _backend_names(path, text)
        ]
    return wrong


def _backend_names(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Lines that name a backend; in Python, documentation may, as an example."""
    if path.endswith(".py"):
        for line, word in _python_words(ast.parse(text)):
            if match := _BACKEND_NAME.search(word):
                yield line, match.group()
    else:
        for match in _BACKEND_NAME.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, match.group()


def _python_words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names and strings of a module, less bare strings (documentation)."""
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in bare:
                yield node.lineno, node.value
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr


def includes(text: str) -> Iterator[tuple[int, str]]:
    for match in _INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start(1)) + 1, match.group(1)


def _imports(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules = [alias.name + ".x" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for module in modules:
            if module in _PACKAGES:
                module += ".x"
            yield node.lineno, module.replace(".", "/") + ".py"
