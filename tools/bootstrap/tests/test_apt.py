"""What the bootstrap reads from apt: mirrors, keys, archives, package records."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.bootstrap import apt, packages
from tools.bootstrap.report import Problem

MIRROR = "http://mirror.example/debian/"


def test_the_first_plain_release_gives_the_mirror() -> None:
    listing = """\
http://security.example/debian-security/ main bookworm-security
http://mirror.example/debian/ contrib bookworm
http://mirror.example/debian/ main bookworm-updates
http://mirror.example/debian/ main bookworm
http://other.example/debian/ main sid
"""
    assert apt.choose_mirror(listing) == MIRROR


def test_no_mirror() -> None:
    assert apt.choose_mirror("") is None


@pytest.mark.parametrize(
    ("name", "text", "key"),
    [
        (
            "debian.sources",
            "Types: deb\nURIs: http://mirror.example/debian\nSuites: x\nSigned-By: /keys/a.gpg\n",
            "/keys/a.gpg",
        ),
        (
            "two.sources",
            "URIs: http://other.example\nSigned-By: /keys/b.gpg\n\n"
            "URIs:\n http://x.example\n http://mirror.example/debian/\nSigned-By: /keys/a.gpg\n",
            "/keys/a.gpg",
        ),
        (
            "inline.sources",
            "URIs: http://mirror.example/debian\nSigned-By:\n -----BEGIN KEY-----\n .\n abc\n",
            "\n -----BEGIN KEY-----\n .\n abc",
        ),
        (
            "sources.list",
            "# deb [signed-by=/no] http://mirror.example/debian x main\n"
            "deb [arch=amd64 signed-by=/keys/a.gpg] http://mirror.example/debian x main\n",
            "/keys/a.gpg",
        ),
    ],
)
def test_the_mirrors_key_is_found(tmp_path: Path, name: str, text: str, key: str) -> None:
    (tmp_path / name).write_text(text)
    assert apt.find_key(MIRROR, [tmp_path / name]) == key


def test_other_mirrors_keys_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.sources"
    file.write_text("URIs: http://other.example\nSigned-By: /keys/b.gpg\n")
    keyring = tmp_path / "keyring.gpg"
    monkeypatch.setattr(apt, "_DEBIAN_KEYRING", keyring)
    assert apt.find_key(MIRROR, [file]) is None
    keyring.touch()
    assert apt.find_key(MIRROR, [file]) == str(keyring)


def test_uris_are_read() -> None:
    digest = "0f" * 32
    text = f"'http://mirror.example/p/n_1%253a4_all.deb' n_1%3a4_all.deb 267264 SHA256:{digest}\n"
    assert apt.parse_uris(text) == [apt.Archive("n_1%3a4_all.deb", 267264, digest)]


BAZEL_RECORD = """\
Package: bazel-bootstrap
Version: 7.7.1+ds-8+b1
Depends: bazel-rules-cc (>= 0.0.11), build-essential, libguava-java | x, libc6 (>= 2.38)
Description: Tool
"""
JRE_RECORD = "Package: default-jre-headless\nDepends: openjdk-99-jre-headless, java-common\n"


def test_packages_follow_the_dependencies() -> None:
    chosen = packages.choose(BAZEL_RECORD, JRE_RECORD)
    assert chosen == sorted(set(chosen))
    wanted = {
        "bazel-bootstrap",
        "bazel-rules-cc",
        "libguava-java",
        "libc6",
        "openjdk-99-jre-headless",
    }
    assert wanted < set(chosen)
    assert {
        "android-libboringssl",
        "flatbuffers-compiler",
        "googletest",
        "nlohmann-json3-dev",
        "patchelf",
    } < set(chosen)
    assert not {"build-essential", "java-common"} & set(chosen)


@pytest.mark.parametrize("version", ["6.5.0-1", "7.6.2-1", "8.0.0-1", "17.7.1"])
def test_another_major_version_is_refused(version: str) -> None:
    record = BAZEL_RECORD.replace("7.7.1+ds-8+b1", version)
    with pytest.raises(Problem) as caught:
        packages.choose(record, JRE_RECORD)
    assert str(caught.value) == (
        f"Debian forky has bazel-bootstrap {version}, but 7.7 or a later 7.x is needed. "
        "Use bazelisk, or a Debian mirror that still has that version."
    )


def test_a_suite_without_bazel_is_refused() -> None:
    with pytest.raises(Problem, match="has bazel-bootstrap none, but 7.7"):
        packages.choose("", "")
