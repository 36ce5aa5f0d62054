"""What the build links to of an environment that it did not make."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from third_party.python import installed


def _install(site: Path, name: str, version: str, *requires: str) -> None:
    """Puts a package into a folder as pip does."""
    (site / name).mkdir(parents=True)
    (site / name / "__init__.py").write_text("", encoding="utf-8")
    info = site / f"{name}-{version}.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {text}" for text in requires]
    (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
    record = [f"{name}/__init__.py,,", f"../../bin/{name},,", f"{info.name}/METADATA,,"]
    (info / "RECORD").write_text("\n".join(record) + "\n", encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    _install(tmp_path, "torch", "2.99.0", "numpy", "tool-kit[fast]==1; x == 'y'", "absent>=2")
    _install(tmp_path, "tool_kit", "1", 'engine; extra == "fast"')
    _install(tmp_path, "engine", "3", "torch")
    _install(tmp_path, "numpy", "2")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def _names(*pinned: str) -> list[str]:
    return [found.metadata["Name"] for found in installed.required("torch", pinned)]


def test_what_is_required_comes_along_and_what_is_pinned_does_not(site: Path) -> None:
    assert _names("numpy") == ["torch", "tool_kit", "engine"]
    assert sorted(_names("numpy", "tool_kit")) == ["torch"]


def test_entries_lie_in_site_packages(site: Path) -> None:
    (torch,) = installed.required("torch", ("numpy", "tool_kit"))
    names = ("torch", "torch-2.99.0.dist-info")
    assert installed.entries(torch) == {name: str(site / name) for name in names}


def _run(site: Path, package: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, installed.__file__, package, "numpy"],
        env={"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_program_says_what_it_found(site: Path) -> None:
    found = json.loads(_run(site, "torch").stdout)
    assert found["python"] == list(sys.version_info[:2])
    assert {"torch", "tool_kit", "engine"} <= found["entries"].keys()
    assert "numpy" not in found["entries"]
    assert found["watch"] == str(site / "torch-2.99.0.dist-info/METADATA")


def test_error_for_what_is_not_installed(site: Path) -> None:
    text = _run(site, "pear").stderr
    assert text.endswith("has no pear. Install it there with pip, or choose a lock.\n")


def test_error_for_what_pip_did_not_install(site: Path) -> None:
    (site / "torch-2.99.0.dist-info/RECORD").unlink()
    text = _run(site, "torch").stderr
    assert "without the list of its files" in text and "installed by pip" in text
