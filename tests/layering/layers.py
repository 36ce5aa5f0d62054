"""The layers of the source tree and which of them may depend on which.

A layer is a folder with all that is below it, less the folders and files that are layers of their
own. It depends on another when a C++ file of it includes a header of the other, or a Python file
imports a module of it. Layers that the table does not name may depend on any.

Headers are known as `pteron/<path>`, modules of backends, exir and runtime as `pteron.<path>`.
"""

import ast
import re
from collections.abc import Iterator

_CORE = frozenset({"runtime/core", "runtime/platform"})
_SEAM = _CORE | {"runtime/backend", "runtime/schema"}
_RUNTIME = _SEAM | {"runtime", "runtime/executor", "runtime/kernel", "runtime/python"}
# Files of `exir` that are above its subfolders, from the bottom up; the others are below.
_EXIR_TOP = [
    f"exir/{name}.py"
    for name in "arguments config export_warnings undelegated explain program __init__".split()
]
_EXIR_FOLDERS = ("_serialize", "backend", "emit", "passes", "verification")
_COMPILE_SPEC = "exir/graph/compile_spec.py"
_EXIR_BELOW = {"exir", _COMPILE_SPEC, *(f"exir/{folder}" for folder in _EXIR_FOLDERS)}
_EXIR = frozenset(_EXIR_BELOW.union(_EXIR_TOP))
_AOTI_RUNTIME = frozenset(
    f"backends/aoti/{folder}" for folder in ("ops", "runtime", "schema", "shims", "slim")
)
_CACHE = "backends/aoti/object_cache.py"
_AOTI = _AOTI_RUNTIME | {"backends/aoti", "backends/aoti/inductor", "backends/aoti/passes", _CACHE}
_BACKEND = _RUNTIME | _AOTI | _EXIR

# layer -> what it may depend on besides itself
ALLOWED: dict[str, frozenset[str]] = {
    # The runtime, from the bottom up. None of it names a backend.
    "runtime/core": _CORE,
    "runtime/platform": _CORE,
    "runtime/schema": frozenset(),
    "runtime/backend": _CORE,
    "runtime/kernel": _CORE | {"runtime/backend"},
    "runtime/program_reader": _SEAM,
    "runtime/executor": _SEAM | {"runtime/kernel", "runtime/program_reader"},
    "runtime": _RUNTIME | {"runtime/program_reader"},
    # Lowering: graphs, the file format that the runtime reads, and a run of what was lowered.
    _COMPILE_SPEC: frozenset(),
    "exir/_serialize": frozenset({"runtime/schema"}),
    "exir": frozenset({"exir/_serialize", _COMPILE_SPEC}),
    "exir/passes": frozenset({"exir"}),
    "exir/backend": frozenset({"exir", "exir/_serialize", "exir/passes", _COMPILE_SPEC}),
    "exir/emit": frozenset({"exir", "exir/_serialize"}),
    "exir/verification": frozenset({"exir", "exir/_serialize", "exir/backend", _COMPILE_SPEC})
    | {"runtime"},
    **{top: frozenset(_EXIR_BELOW.union(_EXIR_TOP[:i])) for i, top in enumerate(_EXIR_TOP)},
    **dict.fromkeys(
        ("exir/tests", "exir/backend/tests", "exir/verification/tests"),
        _EXIR | {"runtime", "runtime/schema"},
    ),
    # What backends share, then the backends, which never depend on each other.
    "backends": frozenset(),
    "backends/aoti": (_AOTI - {"backends/aoti/runtime"}) | _EXIR,
    _CACHE: frozenset(),
    "backends/aoti/inductor": frozenset({"backends/aoti/ops", "exir"}),
    "backends/aoti/ops": _CORE | {"backends/aoti/shims", "backends/aoti/slim"},
    "backends/aoti/passes": frozenset({"backends/aoti/ops", "exir"}),
    "backends/aoti/runtime": _SEAM | _AOTI_RUNTIME,
    "backends/aoti/schema": frozenset(),
    "backends/aoti/shims": _CORE | {"backends/aoti/ops", "backends/aoti/slim"},
    "backends/aoti/slim": _CORE,
    "backends/apple/metal": _BACKEND,
    "backends/cpu": _BACKEND,
    "backends/cuda": _BACKEND,
    "backends/example": _RUNTIME | _EXIR,
    # The public package of Python.
    "python": _EXIR | {"backends/apple/metal", "backends/cpu", "backends/cuda", "runtime", _CACHE},
    # Third-party code and developer tools depend on no layer.
    "third_party": frozenset(),
    "tools": frozenset(),
    # Programs over the runtime, which choose their backends.
    "tools/pteron": frozenset({"python"}),
    "tools/runner": _BACKEND | {"backends/cpu", "backends/cuda", "backends/apple/metal"},
}

# Unit tests (the folders `tests` inside layers) may also use the sample models and backends.
_FOR_TESTS = frozenset({"tests", "exir/tests"})

_PYTHON_FOLDERS = ("backends", "exir", "runtime")
_TOP_FOLDERS = (*_PYTHON_FOLDERS, "examples", "python", "tests", "third_party", "tools")
_PACKAGES = tuple(f"pteron.{folder}" for folder in _PYTHON_FOLDERS)
# Another repository, with names of its own.
_FOREIGN = "tests/downstream/workspace/"
# Helpers of builds and tests, open to all.
_OPEN = ("tools/build/", "tools/lint/")

_BACKEND_NAME = re.compile(r"\b(?:Cpu|Cuda|Metal|cpu_|cuda_|metal_)[Bb]ackend\b")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)


def layer_of(path: str) -> str:
    """The layer of a file: itself or the longest folder that the table names, else its top folder.

    `a/b/c.py` may stand for a name `c` of the module `a/b.py`, see `uses`.
    """
    parts = path.split("/")
    for length in range(len(parts), 0, -1):
        name = "/".join(parts[:length])
        for layer in (name, f"{name}.py"):
            if layer in ALLOWED:
                return layer
    return parts[0] if len(parts) > 1 else ""


def uses(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Lines and files of the repository that a C++ or Python file includes or imports.

    A Python module counts as the file `a/b/c.py`; `from a.b import c` counts as `a/b/c.py` too,
    which is in the right layer whether `c` is a module or a name.
    """
    if path.endswith(".py"):
        found = _imports(text)
    else:
        found = _includes(text)
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
        for line, used in (_imports(text) if is_python else _includes(text))
        if used.split("/")[0] in folders
    ]


def violations(path: str, text: str) -> list[str]:
    """The dependencies of one file that the table does not allow, as human-readable lines."""
    layer = layer_of(path)
    if layer not in ALLOWED:
        return []
    is_test = "tests" in path.split("/")[1:-1]
    allowed = ALLOWED[layer] | {layer} | (_FOR_TESTS if is_test else frozenset())
    shown = ", ".join(sorted(allowed - {layer})) or "no other layer"
    wrong = [
        f"{path}:{line}: {layer} uses {used}, but may depend on {shown}"
        for line, used in uses(path, text)
        if layer_of(used) not in allowed and not used.startswith(_OPEN)
    ]
    if path.startswith("runtime/") and not is_test:
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


def _includes(text: str) -> Iterator[tuple[int, str]]:
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
