"""Re-rooting of an unpacked tree, and the local registry over it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tools.bootstrap import install, registry
from tools.bootstrap.report import Problem


def test_absolute_links_of_the_tree_are_rerooted(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/java.cfg").touch()
    (tmp_path / "inside").symlink_to("/etc/java.cfg")
    (tmp_path / "outside").symlink_to("/dev/null")
    (tmp_path / "relative").symlink_to("etc/java.cfg")
    install.relink(tmp_path, Path("/home/tree"))
    assert (tmp_path / "inside").readlink() == Path("/home/tree/etc/java.cfg")
    assert (tmp_path / "outside").readlink() == Path("/dev/null")
    assert (tmp_path / "relative").readlink() == Path("etc/java.cfg")


def test_the_class_path_names_the_jars_that_are_there(tmp_path: Path) -> None:
    for file in ("usr/share/java/a.jar", "usr/share/java/perfmark-api.jar"):
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    classpath = tmp_path / "usr/share/bazel/bazel_classpath_debian_depends.txt"
    classpath.parent.mkdir(parents=True)
    classpath.write_text("/usr/share/java/a.jar\n/usr/share/java/left-out.jar\n")
    install.write_classpath(tmp_path, Path("/home/tree"))
    assert classpath.read_text().split() == [
        "/home/tree/usr/share/java/a.jar",
        "/home/tree/usr/share/java/perfmark-api.jar",
    ]


def test_a_damaged_archive_is_an_error(tmp_path: Path) -> None:
    archive = tmp_path / "broken.deb"
    archive.write_bytes(b"not an archive")
    with pytest.raises(Problem, match="unpacking a Debian package failed .broken.deb"):
        install.Tree(tmp_path, tmp_path).unpack([archive])


def test_every_module_has_a_registry_entry_and_sources(tmp_path: Path) -> None:
    registry.write(tmp_path, Path("/home/setup"), Path("/home/tree"))
    for module in registry.MODULES:
        for version in module.versions:
            entry = tmp_path / "registry/modules" / module.name / version
            assert f'version = "{version}"' in (entry / "MODULE.bazel").read_text()
            source = json.loads((entry / "source.json").read_text())
            assert source == {"type": "local_path", "path": f"/home/setup/sources/{module.name}"}
        assert (tmp_path / "sources" / module.name / "MODULE.bazel").exists()


@pytest.mark.parametrize(
    "name", ["boringssl", "flatbuffers", "googletest", "nlohmann_json", "pcre2"]
)
def test_the_registry_has_the_version_that_the_repository_asks_for(name: str) -> None:
    module_file = Path("MODULE.bazel").read_text(encoding="utf-8")
    asked = re.search(rf'bazel_dep\(name = "{name}", version = "([^"]+)"', module_file)
    provided = {module.name: module.versions for module in registry.MODULES}
    assert asked and asked.group(1) in provided[name]
