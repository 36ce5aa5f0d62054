"""Writes the program that starts the private Bazel, and the rc file that it passes."""

from __future__ import annotations

import re
from pathlib import Path

# Java 25 warns about what Bazel 7 does; errors still show.
_QUIET_JVM = (
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
)


def rc(tree: Path, java_home: Path, modules: Path, debian_rc: str) -> str:
    """The text of the rc file.

    Args:
        tree: the tree of Debian packages.
        java_home: the Java runtime in it.
        modules: directory of the local registry.
        debian_rc: the text of Debian's rc, whose module overrides are kept, re-rooted.
    """
    overrides = re.findall(r"^common (--override_module=\w+)=(/usr/\S+)$", debian_rc, re.MULTILINE)
    lines = [
        f"startup --install_base={tree}/usr/share/bazel",
        "startup --trust_install_base",
        f"startup --server_javabase={java_home}",
        *(f"startup --host_jvm_args={argument}" for argument in _QUIET_JVM),
        *(f"common {option}={tree}{path}" for option, path in overrides),
        f"common --registry=file://{modules}/registry",
        # Its content differs from the one that the public registry gives.
        "common --lockfile_mode=off",
    ]
    return "\n".join(lines) + "\n"


def script(tree: Path, rc_path: Path, cache: Path) -> str:
    """The text of the launcher.

    Bazel's outputs and its disk cache, which lets fresh clones reuse results, stay in the user's
    cache. Options on the command line override these; so does a --disk_cache in the rc files of
    the user, which Bazel reads before this rc.
    """
    return f"""\
#!/bin/sh
# Written by tools/bootstrap; do not edit.
workspace=$PWD
while [ ! -e "$workspace/MODULE.bazel" ] && [ -n "$workspace" ]; do workspace=${{workspace%/*}}; done
disk_cache=--bazelrc={rc_path}.disk_cache
if grep -qs -e --disk_cache "$workspace/user.bazelrc" "${{HOME:-}}/.bazelrc"; then
  disk_cache=--bazelrc=/dev/null
fi
exec {tree}/usr/bin/bazel --nosystem_rc --bazelrc={rc_path} "$disk_cache" \\
  --output_user_root={cache}/output "$@"
"""


def disk_cache_rc(cache: Path) -> str:
    """The rc lines that give clones a common cache of at most 20 GB."""
    return (
        f"common --disk_cache={cache}/disk_cache\n"
        "common --experimental_disk_cache_gc_max_size=20G\n"
    )
