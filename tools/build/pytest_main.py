"""Main program of every pytest_test: runs pytest under Bazel's test protocol."""

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path


def isolate(environment: MutableMapping[str, str]) -> None:
    """Keeps the home directory, caches and temporary files in $TEST_TMPDIR, if Bazel set it."""
    scratch = environment.get("TEST_TMPDIR")
    if not scratch:
        return
    home = Path(scratch, "home")
    home.mkdir(parents=True, exist_ok=True)
    for variable in [name for name in environment if name.startswith("XDG_")]:
        del environment[variable]
    environment.update(HOME=str(home), TMPDIR=scratch, TEMP=scratch, TMP=scratch)


def arguments(environment: MutableMapping[str, str]) -> list[str]:
    """pytest options from Bazel's test environment."""
    options = ["-q", "-rs", "-p", "no:cacheprovider", "--import-mode=importlib", "--rootdir=."]
    if "TEST_TMPDIR" in environment:
        options.append(f"--basetemp={environment['TEST_TMPDIR']}/pytest")
    if "XML_OUTPUT_FILE" in environment:
        options.append(f"--junitxml={environment['XML_OUTPUT_FILE']}")
    if environment.get("TESTBRIDGE_TEST_ONLY"):
        options += ["-k", environment["TESTBRIDGE_TEST_ONLY"]]
    if environment.get("TESTBRIDGE_TEST_RUNNER_FAIL_FAST") == "1":
        options.append("--exitfirst")
    return options


class Shard:
    """A pytest plugin that keeps every n-th test, for a target with a shard_count."""

    def __init__(self, index: int, total: int):
        self._index = index
        self._total = total

    def pytest_collection_modifyitems(self, items: list[object]) -> None:
        items[:] = items[self._index :: self._total]


def plugins(environment: MutableMapping[str, str]) -> list[Shard]:
    """The shard requested by Bazel, if any; tells Bazel that sharding is supported."""
    total = int(environment.get("TEST_TOTAL_SHARDS") or 0)
    if total <= 1:
        return []
    Path(environment["TEST_SHARD_STATUS_FILE"]).touch()
    return [Shard(int(environment["TEST_SHARD_INDEX"]), total)]


def main() -> int:
    environment = os.environ
    isolate(environment)
    # Python puts the folder of this file first; tests import by the path from the repository root.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".") != Path(__file__).parent]
    import pytest

    shard = plugins(environment)
    status = pytest.main(arguments(environment) + sys.argv[1:], plugins=shard)
    nothing_left = status == pytest.ExitCode.NO_TESTS_COLLECTED
    if nothing_left and (shard or environment.get("TESTBRIDGE_TEST_ONLY")):
        return 0  # A filter or a shard may leave a target without tests.
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
