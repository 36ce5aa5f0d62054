"""The local module registry: Debian's sources and stubs under the names of modules."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

OVERLAYS = Path(__file__).parent / "overlays"


@dataclasses.dataclass(frozen=True)
class Module:
    """A module that a local directory provides.

    Attributes:
        name: the module's name.
        versions: versions in the dependency graph; all get the same directory.
        overlay: files of the directory, by their path in it, as names of files in OVERLAYS.
        sources: folders or files of the directory, by their path in it, as paths in the tree of
            Debian packages.
        deps: names and versions of modules that the overlay's BUILD file loads from.
        compatibility_level: as in the Bazel Central Registry.
    """

    name: str
    versions: tuple[str, ...]
    overlay: Mapping[str, str] = dataclasses.field(default_factory=dict)
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)
    deps: tuple[tuple[str, str], ...] = ()
    compatibility_level: int = 1


_RULES_CC = (("rules_cc", "0.0.11"),)

# The first five are what MODULE.bazel asks for. The others are asked for by Bazel's own modules,
# which read them only for languages and platforms that are not built here.
MODULES = (
    Module(
        "googletest",
        ("1.15.2",),
        overlay={"BUILD.bazel": "googletest.BUILD"},
        sources={
            "googletest": "usr/src/googletest/googletest",
            "googlemock": "usr/src/googletest/googlemock",
        },
        deps=_RULES_CC,
    ),
    Module(
        "boringssl",
        ("0.0.0-20240126-22d349c",),
        overlay={"BUILD.bazel": "boringssl.BUILD"},
        sources={
            "include/openssl": "usr/include/android/openssl",
            "lib": "usr/lib",
        },
        deps=_RULES_CC,
        compatibility_level=2,
    ),
    Module(
        "flatbuffers",
        ("24.3.25.bcr.1",),
        overlay={"BUILD.bazel": "flatbuffers.BUILD"},
        sources={
            "bin/flatc": "usr/bin/flatc",
            "include/flatbuffers": "usr/include/flatbuffers",
        },
        deps=_RULES_CC,
    ),
    Module(
        "nlohmann_json",
        ("3.11.3",),
        overlay={"BUILD.bazel": "nlohmann_json.BUILD"},
        sources={"include/nlohmann": "usr/include/nlohmann"},
        deps=_RULES_CC,
    ),
    Module(
        "pcre2",
        ("10.43",),
        overlay={"BUILD.bazel": "pcre2.BUILD"},
        sources={"include/pcre2.h": "usr/include/pcre2.h", "lib": "usr/lib"},
        deps=_RULES_CC,
    ),
    Module(
        "apple_support",
        ("1.23.1",),
        overlay={"platforms/BUILD.bazel": "apple_support.BUILD"},
    ),
    Module(
        "buildozer",
        ("7.1.2",),
        overlay={"buildozer_binary.bzl": "buildozer_binary.bzl"},
    ),
    Module("protobuf", ("3.19.6", "21.7")),
    Module("zlib", ("1.3.1.bcr.3",)),
)


def write(root: Path, home: Path, tree: Path) -> None:
    """Writes the registry.

    Args:
        root: the empty directory to write into.
        home: where that directory is going to live.
        tree: the tree of Debian packages.
    """
    _write_text(root / "registry/bazel_registry.json", "{}\n")
    for module in MODULES:
        _write_sources(module, root / "sources" / module.name, tree)
        for version in module.versions:
            entry = root / "registry/modules" / module.name / version
            _write_text(entry / "MODULE.bazel", _module_file(module, version))
            source = {"type": "local_path", "path": str(home / "sources" / module.name)}
            _write_text(entry / "source.json", json.dumps(source) + "\n")


def _write_sources(module: Module, directory: Path, tree: Path) -> None:
    _write_text(directory / "MODULE.bazel", _module_file(module, module.versions[0]))
    if "BUILD.bazel" not in module.overlay:
        _write_text(directory / "BUILD.bazel", "")
    for path, overlay in module.overlay.items():
        _write_text(directory / path, (OVERLAYS / overlay).read_text(encoding="utf-8"))
    for path, source in module.sources.items():
        link = directory / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(tree / source)


def _module_file(module: Module, version: str) -> str:
    lines = [
        "module(",
        f'    name = "{module.name}",',
        f'    version = "{version}",',
        f"    compatibility_level = {module.compatibility_level},",
        ")",
        *(f'bazel_dep(name = "{name}", version = "{version}")' for name, version in module.deps),
    ]
    return "\n".join(lines) + "\n"


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
