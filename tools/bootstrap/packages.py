"""Which Debian packages make up the private Bazel.

The list is taken from the dependencies of Debian's own Bazel package, so that it follows new
library names; what C++ and Python builds never touch is left out.
"""

from __future__ import annotations

import re

from tools.bootstrap.report import Problem

# Debian's testing suite at the time of Bazel 7.7.1; it stays valid under this name once released.
SUITE = "forky"
BAZEL = "bazel-bootstrap"
BAZEL_VERSION = re.compile(r"7\.([7-9]|\d\d)\b")

# The metapackage that names the suite's Java runtime.
DEFAULT_JRE = "default-jre-headless"

# Dependencies of Bazel's package that are the host's business (compiler, Python) or that only
# Java, Android and remote-execution builds load.
_UNUSED = frozenset(
    """
    build-essential default-jdk-headless python3 unzip zlib1g-dev
    async-profiler-java protobuf-compiler-grpc-java-plugin
    libasm-java libcommons-codec-java libcommons-collections3-java libcommons-logging-java
    libgeronimo-annotation-1.3-spec-java libjackson2-core-java libjacoco-java libjarjar-java
    libjaxb-api-java libjformatstring-java libopencensus-java libprotobuf-java libzstd-jni-java
    """.split()
)

# What those dependencies need in turn, the tool that re-roots them, and the C++ libraries that
# stand in for modules of the registry.
_EXTRA = (
    "libasync-profiler-java",
    "libcares2",
    "libgoogle-gson-java",
    "libgoogle-http-client-java",
    "libguava-java",
    "libhamcrest-java",
    "libnetty-buffer-java",
    "libnetty-common-java",
    "patchelf",
    "android-libboringssl",
    "android-libboringssl-dev",
    "flatbuffers-compiler",
    "libflatbuffers-dev",
    "googletest",
    "libpcre2-dev",
    "nlohmann-json3-dev",
)


def dependencies(record: str) -> list[str]:
    """The package names in the `Depends:` line of a package record, first alternatives only."""
    match = re.search(r"^Depends: (.*)$", record, re.MULTILINE)
    entries = match.group(1).split(",") if match else []
    return [re.split(r"[\s(|:]", entry.strip(), maxsplit=1)[0] for entry in entries]


def version(record: str) -> str:
    """The version in a package record."""
    match = re.search(r"^Version: (.*)$", record, re.MULTILINE)
    return match.group(1) if match else "none"


def choose(bazel_record: str, jre_record: str) -> list[str]:
    """The names of all packages to download.

    Args:
        bazel_record: the record of `BAZEL` as `apt-cache show` prints it.
        jre_record: the record of the default Java runtime's metapackage.

    Raises:
        Problem: the suite's Bazel is not a supported version.
    """
    if not BAZEL_VERSION.match(version(bazel_record)):
        raise Problem(
            f"Debian {SUITE} has {BAZEL} {version(bazel_record)}, but 7.7 or a later 7.x is needed",
            "Use bazelisk, or a Debian mirror that still has that version",
        )
    runtimes = [name for name in dependencies(jre_record) if "-jre-headless" in name]
    needed = [name for name in dependencies(bazel_record) if name not in _UNUSED]
    return sorted({BAZEL, *needed, *runtimes, *_EXTRA})
