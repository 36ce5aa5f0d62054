"""The files of ways to run a model, made once for a version and kept in a folder."""

import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata

from absl import logging

from tests.benchmarks.cpu_ways import ALL_WAYS
from tests.benchmarks.results import commit

_MAKE_S = 1800

#: What decides on our programs and on what runs them.
_COMPILED = (
    *("backends", "exir", "runtime", "schema", "third_party/python"),
    *(":(exclude,glob)**/*.md", ":(exclude,glob)**/tests/**"),
)


def versions_of_packages() -> dict[str, str]:
    """Of torch and all peers."""
    packages = sorted({way.package for way in ALL_WAYS.values()} - {""})
    return {name: metadata.version(name) for name in packages}


def versions_of_ways() -> dict[str, str]:
    """What the files and times of each way depend on."""
    ours = commit(*_COMPILED)
    return {name: way.version or f"pteron {ours}" for name, way in ALL_WAYS.items()}


def make(
    model: str, ways: Iterable[str], versions: Mapping[str, str], folder: pathlib.Path, threads: int
) -> dict[str, str]:
    """Writes the files of those that have none of this version, and what eager returns. Returns why
    some have none."""
    folder.mkdir(parents=True, exist_ok=True)
    failed: dict[str, str] = {}
    for way in dict.fromkeys(["eager", *ways]):
        made = folder / f"{way}.made"  # the version, then why there is no file
        version, *why = (made.read_text() if made.exists() else "").splitlines() or [""]
        if is_same(version, versions[way]):
            if why:
                failed[way] = why[0]
            continue
        logging.info("%s: making %s", model, way)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.cpu_ways"]
                + [*job(model, way, folder, threads), "make"],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                capture_output=True,
                text=True,
                timeout=_MAKE_S,
            )
        except subprocess.TimeoutExpired:
            failed[way] = f"not made in {_MAKE_S} s"
            continue
        if done.returncode:
            (folder / f"{way}.log").write_text(done.stderr)
            last = done.stderr.strip().splitlines()[-1:] or [f"ended with {done.returncode}"]
            failed[way] = without_paths(last[0][:200])
            logging.warning("%s: %s: %s", model, way, failed[way])
        made.write_text("\n".join([versions[way], *([failed[way]] if way in failed else [])]))
    return failed


def without_paths(text: str) -> str:
    """A message that may be published: folders of this machine are left out."""
    return re.sub(r"(?<![\w:/])/(?:[^\s/'\"]+/)+", "", text)


def is_same(version: str, wanted: str) -> bool:
    """Whether results of `version` stand; a checkout with changes is like no other."""
    return version == wanted and not version.endswith("-dirty")


def job(model: str, way: str, folder: pathlib.Path, threads: int) -> list[str]:
    """Arguments of `cpu_ways`."""
    return [model, way, str(folder), str(threads)]
