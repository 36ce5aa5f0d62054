"""A private apt: the machine's mirror and keys, another suite, no root, no system change."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from tools.bootstrap.report import Problem, megabytes, say

_DEBIAN_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_NETWORK_REMEDY = (
    "Check the network and the apt mirror and proxy in /etc/apt, "
    "or install bazelisk where Bazel's module registry is reachable"
)


@dataclasses.dataclass(frozen=True)
class Archive:
    """One .deb file of the mirror.

    Attributes:
        file: name that apt gives the file.
        size: bytes.
        sha256: hexadecimal digest.
    """

    file: str
    size: int
    sha256: str


class Apt:
    """apt-get on package lists of its own, kept in `state`; downloads go to `archives`."""

    def __init__(self, state: Path, archives: Path, suite: str):
        self._archives = archives
        self._suite = suite
        self._environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        for folder in ("state/lists/partial", "cache/archives/partial", "etc/empty"):
            (state / folder).mkdir(parents=True, exist_ok=True)
        archives.mkdir(parents=True, exist_ok=True)
        (state / "state/status").touch()
        sources = state / "etc/sources.list.d"
        sources.mkdir(exist_ok=True)
        (sources / "suite.sources").write_text(self._stanza(), encoding="utf-8")
        config = state / "etc/apt.conf"
        config.write_text(_configuration(state, sources), encoding="utf-8")
        self._environment["APT_CONFIG"] = str(config)

    def update(self) -> None:
        """Fetches the suite's package list.

        Raises:
            Problem: the mirror can't be reached, does not carry the suite, or its signature fails.
        """
        done = self._run("apt-get", "update", "-q", "-o", "APT::Update::Error-Mode=any")
        if done.returncode != 0:
            reason = _last_error(done.stderr + done.stdout)
            raise Problem(f"apt can't read Debian {self._suite} ({reason})", _NETWORK_REMEDY)

    def show(self, package: str) -> str:
        """The record of a package's newest version; empty when the suite has no such package."""
        return self._run("apt-cache", "show", "--no-all-versions", package).stdout

    def archives(self, packages: list[str]) -> list[Archive]:
        """The files that hold the packages.

        Raises:
            Problem: the suite lacks one of the packages.
        """
        done = self._run("apt-get", "download", "--print-uris", *packages)
        if done.returncode != 0:
            raise Problem(
                f"Debian {self._suite} lacks a package of the list ({_last_error(done.stderr)})",
                "Update tools/bootstrap/packages.py, or use bazelisk",
            )
        return parse_uris(done.stdout)

    def download(self, packages: list[str]) -> list[Path]:
        """Downloads what is not there yet, drops archives of earlier versions.

        Returns:
            the verified archives, largest first.

        Raises:
            Problem: a download fails.
        """
        wanted = sorted(self.archives(packages), key=lambda archive: -archive.size)
        for stale in set(self._archives.glob("*.deb")) - {self._archives / a.file for a in wanted}:
            stale.unlink()
        missing = [archive for archive in wanted if not self._is_complete(archive)]
        if missing:
            size = sum(archive.size for archive in missing)
            say(f"downloading {len(missing)} Debian packages, {megabytes(size)}")
            names = [archive.file.split("_", 1)[0] for archive in missing]
            with _Progress(self._archives, sum(a.size for a in wanted)):
                done = self._run("apt-get", "download", "-q", *names, cwd=self._archives)
            if done.returncode != 0 or not all(map(self._is_complete, missing)):
                reason = _last_error(done.stderr + done.stdout)
                raise Problem(f"downloading the Debian packages failed ({reason})", _NETWORK_REMEDY)
        return [self._archives / archive.file for archive in wanted]

    def _is_complete(self, archive: Archive) -> bool:
        path = self._archives / archive.file
        if not path.exists() or path.stat().st_size != archive.size:
            return False
        return hashlib.sha256(path.read_bytes()).hexdigest() == archive.sha256

    def _stanza(self) -> str:
        """The source entry for the suite: the machine's own Debian mirror with another suite."""
        mirror = os.environ.get("PTERON_DEBIAN_MIRROR") or self._find_mirror()
        lines = ["Types: deb", f"URIs: {mirror}", f"Suites: {self._suite}", "Components: main"]
        key = find_key(mirror, self._source_files())
        if key:
            lines.append(f"Signed-By: {key}")
        return "\n".join(lines) + "\n"

    def _find_mirror(self) -> str:
        # Without --no-release-info, apt says nothing when its package lists are empty.
        listing = self._run(
            *("apt-get", "indextargets", "--no-release-info"),
            *("--format", "$(REPO_URI) $(COMPONENT) $(RELEASE)", "Created-By: Packages"),
        )
        mirror = choose_mirror(listing.stdout)
        if not mirror:
            raise Problem(
                "apt is configured without a Debian mirror",
                "Add one to /etc/apt/sources.list.d, or set PTERON_DEBIAN_MIRROR to its address",
            )
        return mirror

    def _source_files(self) -> list[Path]:
        shell = self._run(
            *("apt-config", "shell"),
            *("list", "Dir::Etc::sourcelist/f", "parts", "Dir::Etc::sourceparts/d"),
        ).stdout
        found = dict(re.findall(r"^(\w+)='(.*)'$", shell, re.MULTILINE))
        parts = Path(found.get("parts", "/etc/apt/sources.list.d"))
        files = [Path(found.get("list", "/etc/apt/sources.list"))]
        files += sorted(parts.glob("*.sources")) + sorted(parts.glob("*.list"))
        return [file for file in files if file.is_file() and os.access(file, os.R_OK)]

    def _run(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd=cwd,
            env=self._environment,
            close_fds=False,  # keeps the cache's lock
        )


def choose_mirror(listing: str) -> str | None:
    """The first mirror of a plain release's `main` in lines of `URI component release`."""
    for line in listing.splitlines():
        uri, component, release = line.rsplit(maxsplit=2)
        if component == "main" and not re.search(r"-(updates|security|backports)", release):
            return uri
    return None


def find_key(mirror: str, source_files: list[Path]) -> str | None:
    """The Signed-By value (a path or a key block) that the machine uses for the mirror.

    Falls back to Debian's keyring; None leaves the choice to apt's trusted keys.
    """
    for file in source_files:
        text = file.read_text(encoding="utf-8", errors="replace")
        if file.suffix == ".sources":
            for stanza in re.split(r"\n\s*\n", text):
                uris, key = _field("URIs", stanza), _field("Signed-By", stanza)
                if uris and key and _same(mirror, uris.split()):
                    return key
        else:
            for options, uri in re.findall(r"^deb\s+\[([^]]*)\]\s+(\S+)", text, re.MULTILINE):
                signed_by = re.search(r"signed-by=(\S+)", options)
                if signed_by and _same(mirror, [uri]):
                    return signed_by.group(1)
    return str(_DEBIAN_KEYRING) if _DEBIAN_KEYRING.exists() else None


def parse_uris(text: str) -> list[Archive]:
    """Reads the lines of `apt-get download --print-uris`: 'uri' file size SHA256:digest."""
    lines = re.findall(r"^'[^']*' (\S+) (\d+) SHA256:([0-9a-f]{64})$", text, re.MULTILINE)
    # apt quotes the colon of an epoch in file names ("%3a"), and so does `apt-get download`.
    return [Archive(file, int(size), digest) for file, size, digest in lines]


def _field(name: str, stanza: str) -> str | None:
    """A field of a deb822 stanza, with its continuation lines."""
    match = re.search(rf"^{name}:[ \t]*(.*(?:\n[ \t].*)*)", stanza, re.MULTILINE | re.IGNORECASE)
    return match.group(1).rstrip() if match else None


def _same(mirror: str, uris: list[str]) -> bool:
    return unquote(mirror).rstrip("/") in (unquote(uri).rstrip("/") for uri in uris)


def _configuration(state: Path, sources: Path) -> str:
    # Sandbox user "root": apt, when run by root, does not change to another user, who could not
    # write here.
    return f"""\
Dir::State "{state}/state";
Dir::State::status "{state}/state/status";
Dir::Cache "{state}/cache";
Dir::Etc::sourcelist "{state}/etc/empty/none";
Dir::Etc::sourceparts "{sources}";
Dir::Etc::preferencesparts "{state}/etc/empty";
Dir::Etc::preferences "{state}/etc/empty/none";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
"""


def _last_error(output: str) -> str:
    errors = re.findall(r"^(?:E|Err|W): ?(.*)$", output, re.MULTILINE)
    return (errors[0] if errors else "no message").strip().rstrip(".")


class _Progress:
    """Reports every few seconds how many of `total` bytes a directory contains."""

    def __init__(self, directory: Path, total: int, period: float = 5.0):
        self._directory = directory
        self._total = total
        self._period = period
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self._period):
            say(f"  {megabytes(sum(_sizes(self._directory)))} of {megabytes(self._total)}")


def _sizes(directory: Path) -> Iterator[int]:
    for path in directory.iterdir():
        try:
            yield path.stat().st_size
        except FileNotFoundError:  # apt renames its partial files
            continue
