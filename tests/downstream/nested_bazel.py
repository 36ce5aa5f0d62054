"""A Bazel that a test starts, with outputs of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path


def program() -> str:
    """The Bazel that runs this test, as far as it can be known.

    Raises:
        RuntimeError: nobody said which one, and there is none on PATH.
    """
    found = os.environ.get("PTERON_BAZEL") or os.environ.get("BAZEL_REAL") or shutil.which("bazel")
    if not found:
        raise RuntimeError("Found no Bazel to start. Run the tests with tools/bazel test.")
    return found


class NestedBazel:
    """A Bazel server on one workspace; a context manager that stops the server at the end.

    Example:
        with NestedBazel(workspace, tmp_path / "output") as bazel:
            bazel.run("build", "//...")

    Attributes:
        workspace: the workspace's folder.
        output_base: where the server keeps everything that it makes.
    """

    def __init__(
        self, workspace: Path, output_base: Path, cache: str | None = None, **variables: str
    ):
        """Starts nothing yet.

        Args:
            workspace: the workspace's folder.
            output_base: the server's own folder; made when missing.
            cache: URL of a cache that is shared; without it there is none.
            **variables: environment of Bazel's client, besides what it needs.
        """
        self.workspace = workspace
        self.output_base = output_base
        # The user's caches are not a test's to write.
        self._cache = ["--disk_cache="]
        if cache:
            self._cache += [f"--remote_cache={cache}", "--remote_download_outputs=all"]
        self._environment = {**_environment(), **variables}

    def __enter__(self) -> NestedBazel:
        return self

    def __exit__(self, *_: object) -> None:
        self._start("shutdown")

    def run(self, command: str, *arguments: str, fails: bool = False) -> str:
        """Runs a command on the workspace and returns what it said; fails when Bazel does.

        Args:
            command: as in `bazel build`.
            *arguments: its options and targets.
            fails: whether Bazel is expected to fail.
        """
        options = (
            *self._cache,
            f"--repository_cache={self.output_base}/repository_cache",
            # Other repositories may lie there.
            "--sandbox_add_mount_pair=/tmp",
        )
        done = self._start(command, *options, "--symlink_prefix=/", *arguments)
        assert (done.returncode != 0) is fails, done.stderr
        return done.stderr

    def output(self, path: str) -> Path:
        """A file under bazel-bin, which only the execution root has here."""
        (folder,) = (self.output_base / "execroot/_main/bazel-out").glob("*-fastbuild/bin")
        return folder / path

    def _start(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                program(),
                f"--output_base={self.output_base}",
                "--host_jvm_args=-Xmx2g",
                "--max_idle_secs=60",
                command,
                *arguments,
            ],
            cwd=self.workspace,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )


def _environment() -> dict[str, str]:
    """What leads the nested Bazel to the interpreter and the wheels that this build has."""
    python = json.loads(Path(os.environ["LOCAL_PYTHON"]).read_text(encoding="utf-8"))
    mirror = os.environ.get("PTERON_DEBIAN_MIRROR")
    return {
        **({"PTERON_DEBIAN_MIRROR": mirror} if mirror else {}),
        "HOME": os.environ["HOME"],
        "PATH": os.environ["PATH"],
        "USER": os.environ.get("USER", "bazel"),
        "XDG_CACHE_HOME": str(Path(python["cache"]).parent),
        "PTERON_PYTHON": python["executable"],
        "PTERON_WHEEL_STORE": python["wheel_store"],
    }
