"""Writes the program that starts the private Bazel, and the rc files that it passes."""

from __future__ import annotations

import re
from pathlib import Path

from tools.bootstrap.install import Tree

# Java 25 warns about what Bazel 7 does; errors still show.
_QUIET_JVM = (
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
)

# In the cache: what lowering compiles in tests.
_OBJECTS = "test_objects"


def write(root: Path, home: Path, tree: Path, cache: Path) -> None:
    """Writes `bazel`, `bazelrc` and `disk_cache.bazelrc`.

    Args:
        root: the directory to write into; the local registry is there too.
        home: where that directory is going to live.
        tree: the tree of Debian packages.
        cache: for Bazel's outputs and the disk cache that lets fresh clones reuse results.
    """
    debian_rc = (tree / "etc/bazel/bazelrc").read_text(encoding="utf-8")
    (root / "bazelrc").write_text(_rc(home, tree, cache / _OBJECTS, debian_rc), encoding="utf-8")
    (root / "disk_cache.bazelrc").write_text(
        f"common --disk_cache={cache}/disk_cache\n"
        "common --experimental_disk_cache_gc_max_size=20G\n",
        encoding="utf-8",
    )
    (cache / _OBJECTS).mkdir(parents=True, exist_ok=True)
    program = root / "bazel"
    program.write_text(_script(home, tree, cache), encoding="utf-8")
    program.chmod(0o755)


def _rc(home: Path, tree: Path, objects: Path, debian_rc: str) -> str:
    overrides = re.findall(r"^common (--override_module=\w+)=(/usr/\S+)$", debian_rc, re.MULTILINE)
    lines = [
        f"startup --install_base={tree}/usr/share/bazel",
        "startup --trust_install_base",
        f"startup --server_javabase={Tree(tree, tree).java_home()}",
        *(f"startup --host_jvm_args={argument}" for argument in _QUIET_JVM),
        # Debian's module overrides, re-rooted.
        *(f"common {option}={tree}{path}" for option, path in overrides),
        f"common --registry=file://{home}/registry",
        # The lock file would differ from the one that the public registry gives.
        "common --lockfile_mode=off",
        # What tests compile, by its content: the headers of torch take longer than most models.
        f"build --sandbox_writable_path={objects} --test_env=PTERON_CACHE_DIR={objects}",
    ]
    return "\n".join(lines) + "\n"


def _script(home: Path, tree: Path, cache: Path) -> str:
    # Options on the command line override the rc files; so does a --disk_cache in the user's own,
    # which Bazel reads before these.
    return f"""\
#!/bin/sh
# Starts the private Bazel. Written by tools/bootstrap; edits are lost.
if [ ! -x {tree}/usr/bin/bazel ]; then
  rm -f "$0"
  echo "tools/bazel: error: the private Bazel in {tree} is gone." \\
    "Run tools/bazel again to set it up." >&2
  exit 1
fi
export PTERON_BAZEL="$0"
[ -d {cache}/{_OBJECTS} ] || mkdir -p {cache}/{_OBJECTS}
workspace=$PWD
while [ -n "$workspace" ] && [ ! -e "$workspace/MODULE.bazel" ]; do
  workspace=${{workspace%/*}}
done
disk_cache={home}/disk_cache.bazelrc
if grep -qs -e --disk_cache "$workspace/user.bazelrc" "${{HOME:-}}/.bazelrc"; then
  disk_cache=/dev/null
fi
exec {tree}/usr/bin/bazel --nosystem_rc --bazelrc={home}/bazelrc --bazelrc="$disk_cache" \\
  --output_user_root={cache}/output "$@"
"""
