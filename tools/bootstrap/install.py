"""Unpacks Bazel's Debian packages into a private directory and relocates them."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.bootstrap.report import Problem, say

_ELF = b"\x7fELF"
_CLASSPATH = "usr/share/bazel/bazel_classpath_debian_depends.txt"
# Parts of the packages that nothing here reads.
_DROPPED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian")


class Tree:
    """An unpacked tree of Debian packages with final location `home`.

    It is built at `root`; paths written into it refer to `home`.
    """

    def __init__(self, root: Path, home: Path):
        self.root = root
        self.home = home

    def unpack(self, archives: list[Path]) -> None:
        """Unpacks the archives (largest first is quickest).

        Raises:
            Problem: an archive is damaged, or the disk is full.
        """
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for error in pool.map(self._unpack_one, archives):
                if error:
                    raise Problem(
                        f"unpacking a Debian package failed ({error})",
                        "Make room in the user cache if it is full, and run tools/bazel again",
                    )
        for folder in _DROPPED:
            subprocess.run(["rm", "-rf", self.root / folder], check=True)

    def relocate(self) -> None:
        """Lets programs and libraries find their loader and libraries in `home`."""
        java = self.java_home().relative_to(self.root)
        search = [f"{java}/lib", f"{java}/lib/server", self._libraries()]
        programs = [
            *("usr/bin/bazel", "usr/bin/flatc", f"{java}/lib/jspawnhelper"),
            *self._binaries("usr/libexec/*/bazel/*"),
            *self._binaries(f"{java}/bin/*"),
        ]
        libraries = self._binaries(f"{java}/lib/*.so") + self._binaries(f"{java}/lib/server/*.so")
        self._patch(programs, search, "--set-interpreter", str(self.home / self._loader()))
        self._patch(libraries, search)

    def java_home(self) -> Path:
        """The Java runtime's directory under `root`."""
        # An alias of the directory lies beside it.
        found = [java.parents[1] for java in self.root.glob("usr/lib/jvm/*/bin/java")]
        return next(path for path in found if not path.is_symlink())

    def _unpack_one(self, archive: Path) -> str | None:
        done = subprocess.run(
            ["dpkg-deb", "-x", archive, self.root],
            capture_output=True,
            text=True,
            check=False,
            close_fds=False,  # keeps the cache's lock
        )
        return None if done.returncode == 0 else f"{archive.name}: {done.stderr.strip()}"

    def _binaries(self, pattern: str) -> list[str]:
        return sorted(
            str(path.relative_to(self.root))
            for path in self.root.glob(pattern)
            if path.is_file() and not path.is_symlink() and _is_elf(path)
        )

    def _loader(self) -> str:
        loaders = list(self.root.glob("usr/lib/*/ld-linux-*.so.*"))
        return str(loaders[0].relative_to(self.root))

    def _libraries(self) -> str:
        return str(Path(self._loader()).parent)

    def _patch(self, files: list[str], search: list[str], *options: str) -> None:
        """Lets the files find their shared libraries in the folders `search` and nowhere else."""
        libraries = self.root / self._libraries()
        rpath = ":".join(str(self.home / path) for path in search)
        subprocess.run(
            [
                self.root / self._loader(),
                "--library-path",
                libraries,
                self.root / "usr/bin/patchelf",
                *options,
                # DT_RPATH, unlike DT_RUNPATH, also holds for the libraries of libraries.
                "--force-rpath",
                "--set-rpath",
                rpath,
                *(self.root / path for path in files),
            ],
            check=True,
        )


def relink(root: Path, home: Path) -> None:
    """Turns absolute symbolic links in `root` that mean files of the tree into links to `home`."""
    for folder, folders, files in os.walk(root):
        for path in (Path(folder, name) for name in folders + files):
            if path.is_symlink() and os.readlink(path).startswith("/"):
                target = os.readlink(path)
                if os.path.lexists(f"{root}{target}"):
                    path.unlink()
                    path.symlink_to(f"{home}{target}")


def write_classpath(root: Path, home: Path) -> None:
    """Relocates Bazel's list of jars, without excluded ones, plus a missing one."""
    path = root / _CLASSPATH
    jars = path.read_text(encoding="utf-8").split()
    jars.append("/usr/share/java/perfmark-api.jar")  # gRPC's tracing interface
    present = [f"{home}{jar}" for jar in jars if (root / jar.lstrip("/")).exists()]
    path.write_text("\n".join(present) + "\n", encoding="utf-8")


def install(root: Path, home: Path, archives: list[Path]) -> None:
    """Makes the tree for `home` in the empty directory `root`."""
    say(f"setting up {len(archives)} packages in {home}")
    tree = Tree(root, home)
    tree.unpack(archives)
    tree.relocate()
    relink(root, home)
    write_classpath(root, home)


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == _ELF
