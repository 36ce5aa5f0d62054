"""Installs pinned wheels into a store in the user's cache, once for all checkouts.

    python wheel_store.py <store> <request.json>

The request names wheels of a lock (see README.md for the lock's form):

    {"lock": "third_party/python/locks/common.json", "remedy": "",
     "wheels": [{"name": "numpy", "version": "2.4.6", "files": {"cp311-...": "<sha256>"}}]}

Prints the path of a directory that holds the wheels' files as `pip install --target` lays them
out. pip gets the wheels from where the machine's pip configuration says and accepts only a file
with a hash of the lock. An entry of the store is named after all that shaped it and appears in one
step; processes that want the same entry wait for the first one. Exits with 1 and a text on stderr
when a wheel can't be had; the store is then as before.
"""

from __future__ import annotations

import compileall
import contextlib
import dataclasses
import hashlib
import json
import os
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

# Part of every entry's name: raise it when this file lays entries out differently.
_LAYOUT = "1"
_PARTIAL = ".partial"
_STALE_S = 24 * 60 * 60


class WheelError(Exception):
    """A wheel can't be had; the text says what was found, what was expected, what to try."""


@dataclasses.dataclass(frozen=True)
class Wheel:
    """One package of a lock.

    Attributes:
        name: as the lock has it.
        version: the pinned version; a local part ("+cpu") is kept.
        files: for each tag of a wheel file ("cp311-cp311-manylinux_2_28_x86_64") its sha256.
    """

    name: str
    version: str
    files: dict[str, str]

    @property
    def requirement(self) -> str:
        # "==2.13.0" would also take 2.13.0+cpu.
        return f"{self.name}==={self.version}"

    def hashes(self, supported: frozenset[str]) -> list[str]:
        """The sha256 of each file that an interpreter with the tags `supported` can use."""
        return sorted(h for tag, h in self.files.items() if supported & expand_tag(tag))


@dataclasses.dataclass(frozen=True)
class Request:
    """What is to be installed together.

    Attributes:
        wheels: the wheels that share one directory.
        lock: the lock's path in its repository, for messages.
        remedy: what to try when a wheel is not to be had, beyond the general advice.
    """

    wheels: tuple[Wheel, ...]
    lock: str
    remedy: str

    @staticmethod
    def from_json(text: str) -> Request:
        fields = json.loads(text)
        wheels = tuple(Wheel(w["name"], w["version"], w["files"]) for w in fields["wheels"])
        return Request(wheels, fields["lock"], fields["remedy"])


def expand_tag(tag: str) -> frozenset[str]:
    """The simple tags of a compressed one: "py2.py3-none-any" is two of them."""
    pythons, abis, platforms = (part.split(".") for part in tag.split("-"))
    return frozenset(f"{p}-{a}-{f}" for p in pythons for a in abis for f in platforms)


def supported_tags() -> frozenset[str]:
    """The simple tags of wheels that this interpreter can use."""
    from pip._vendor.packaging import tags

    return frozenset(map(str, tags.sys_tags()))


def install(request: Request, store: Path, supported: frozenset[str] | None = None) -> Path:
    """Finds or makes the store's directory for the wheels.

    Args:
        request: the wheels.
        store: the store; made when missing.
        supported: the interpreter's tags; None asks the interpreter.

    Raises:
        WheelError: a wheel can't be had.
    """
    supported = supported_tags() if supported is None else supported
    requirements = [_pin(wheel, request, supported) for wheel in request.wheels]
    final = store / _entry_name(request, requirements)
    if final.is_dir():
        return final
    try:
        store.mkdir(parents=True, exist_ok=True)
        with _locked(store / f".{final.name}.lock"):
            if not final.is_dir():
                _remove_leftovers(store)
                with tempfile.TemporaryDirectory(dir=store, suffix=_PARTIAL) as partial:
                    _fill(Path(partial) / "wheels", requirements, request)
                    (Path(partial) / "wheels").rename(final)
    except OSError as error:
        raise WheelError(
            f"{store}: {error.strerror or error}. The wheel store needs a writable directory with "
            f"room for the wheels; name another with --repo_env=PTERON_WHEEL_STORE=<directory>."
        ) from error
    return final


def _pin(wheel: Wheel, request: Request, supported: frozenset[str]) -> str:
    """The wheel's line of a pip requirements file."""
    hashes = wheel.hashes(supported)
    if not hashes:
        python = "CPython %d.%d" % sys.version_info[:2]
        found = "".join(f"\n  {tag}" for tag in sorted(wheel.files))
        raise WheelError(
            f"{request.lock} has no wheel of {wheel.requirement} for {python} on this machine. "
            f"It has:{found}\n{request.remedy}Name another interpreter with "
            f"--repo_env=PTERON_PYTHON=<path>, or add the wheel with "
            f"third_party/python/update_locks.py."
        )
    return " ".join([wheel.requirement, *(f"--hash=sha256:{h}" for h in hashes)])


def _entry_name(request: Request, requirements: list[str]) -> str:
    python = "cp%d%d" % sys.version_info[:2]
    key = hashlib.sha256("\n".join([_LAYOUT, python, *sorted(requirements)]).encode()).hexdigest()
    first = request.wheels[0]
    return f"{first.name}-{first.version}-{key[:16]}"


def _fill(target: Path, requirements: list[str], request: Request) -> None:
    target.mkdir()
    pins = target.parent / "requirements.txt"
    pins.write_text("\n".join(requirements) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps"]
    command += ["--require-hashes", "--only-binary=:all:", "--no-compile", "--no-cache-dir"]
    command += ["--no-warn-conflicts", "--disable-pip-version-check", "--target", str(target)]
    done = subprocess.run(
        [*command, "--requirement", str(pins)],
        capture_output=True,
        text=True,
        check=False,
        env=_pip_environment(target.parent),
    )
    if done.returncode != 0:
        raise WheelError(explain(done.stderr + done.stdout, request))
    _compile(target)


def _pip_environment(temporary: Path) -> dict[str, str]:
    """The caller's environment, where pip's index, proxy and certificates are configured."""
    unwanted = {"PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_ROOT", "PIP_REQUIRE_VIRTUALENV"}
    environment = {k: v for k, v in os.environ.items() if k not in unwanted}
    # pip unpacks there: next to the store, since a small /tmp does not hold torch.
    return {**environment, "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}


def _compile(target: Path) -> None:
    """Writes byte code that never looks at source times, so that nobody rewrites it later."""
    compileall.compile_dir(
        target,
        maxlevels=50,
        quiet=2,
        stripdir=str(target),
        workers=os.cpu_count() or 1,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


def explain(output: str, request: Request) -> str:
    """The text of the error for a failed pip, made from pip's own words.

    Args:
        output: what pip printed.
        request: what was to be installed.
    """
    names = ", ".join(wheel.requirement for wheel in request.wheels)
    errors = re.findall(r"^\s*ERROR: (.*)$", output, re.MULTILINE)
    got = re.findall(r"\bGot\s+([0-9a-f]{64})", output)
    if "No space left on device" in output:
        reason = (
            "the wheel store's disk is full; make room, or name a store elsewhere with "
            "--repo_env=PTERON_WHEEL_STORE=<directory>"
        )
    elif got:
        reason = f"the package index offers a file with sha256 {got[0]}, which is not in the lock"
    elif re.search("No matching distribution|Could not find a version", output):
        reason = "the package index does not have that version as a wheel for this machine"
    else:
        reason = f"pip failed ({errors[-1] if errors else output.strip() or 'no message'})"
    return (
        f"{names} of {request.lock}: {reason}.\n{request.remedy}"
        f"Check pip's configuration (index, find-links, proxy) with `python3 -m pip config list`."
    )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds a lock that ends with the process, where the file system can lock."""
    import fcntl

    with open(path, "w", encoding="utf-8") as lock:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_leftovers(store: Path) -> None:
    """Removes what interrupted runs left, once nobody can be working on it any more."""
    for leftover in store.glob("*" + _PARTIAL):
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime > _STALE_S:
                shutil.rmtree(leftover)


def main() -> None:
    try:
        request = Request.from_json(Path(sys.argv[2]).read_text(encoding="utf-8"))
        print(install(request, Path(sys.argv[1])))
    except WheelError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
