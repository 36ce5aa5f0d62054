"""The public package `import pteron`, and that its modules have no other name."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pteron


def run(script: str) -> str:
    """The output of a fresh interpreter."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_every_name_is_there() -> None:
    for name in pteron.__all__:
        if not name.startswith(("Cuda", "Metal")):
            assert getattr(pteron, name).__module__.startswith("pteron."), name
    assert set(pteron.__all__) <= set(dir(pteron))


def test_all_that_the_packages_offer_is_there() -> None:
    from pteron import exir, runtime

    assert {*exir.__all__, *runtime.__all__} <= set(pteron.__all__)


def test_type_checkers_know_the_same_names() -> None:
    from pteron import exir, runtime

    stub = ast.parse(Path(pteron.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    modules = [a.name for node in imports if node.module == "pteron" for a in node.names]
    assert modules == list(pteron._PACKAGES)
    names = {a.name for node in imports if node.module != "pteron" for a in node.names}
    stars = {node.module for node in imports if node.names[0].name == "*"}
    assert stars == {"pteron.exir", "pteron.runtime"}
    assert names - {"*"} | {*exir.__all__, *runtime.__all__} == {*pteron.__all__}


@pytest.mark.parametrize("name", pteron._PACKAGES)
def test_a_package_is_a_name(name: str) -> None:
    assert run(f"import pteron; print(pteron.{name}.__name__)") == f"pteron.{name}"
    assert name not in pteron.__all__


def test_the_import_is_light() -> None:
    imported = run(
        "import sys; before = {*sys.modules}; import pteron; print(sorted({*sys.modules} - before))"
    )
    assert imported == "['pteron']"
    assert run("import sys, pteron; pteron.Runtime; print('torch' in sys.modules)") == "False"


def test_a_name_that_is_not_there_says_what_to_depend_on() -> None:
    with pytest.raises(ImportError, match="CudaPartitioner is not.*Add @pteron//backends/cuda to"):
        _ = pteron.CudaPartitioner
    with pytest.raises(AttributeError, match="'pteron' has no attribute 'Nothing'"):
        _ = pteron.Nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "module", ["exir.program", "runtime.python", "backends.cpu", "pteron.torch"]
)
def test_no_module_has_another_name(module: str) -> None:
    top = module.partition(".")[0]
    assert not importlib.util.find_spec(top) or not importlib.util.find_spec(module)


def test_libraries_find_each_other() -> None:
    assert pteron.Runtime.get().backend_registry.is_available("CpuBackend")
    opened = Path("/proc/self/maps").read_text()
    assert len({line.split()[-1] for line in opened.splitlines() if "libpteron.so" in line}) == 1


def test_headers_are_in_the_wheel() -> None:
    for place in (pteron.include_dir, pteron.cmake_prefix_path, pteron.pkg_config_path):
        with pytest.raises(FileNotFoundError, match="only the wheel has headers"):
            place()
