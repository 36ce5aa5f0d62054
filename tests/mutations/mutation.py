"""One small, wrong change of the code, and the test that must notice it."""

from __future__ import annotations

import dataclasses
import pathlib


@dataclasses.dataclass(frozen=True)
class Mutation:
    """Text of one file that is replaced, and who must fail then.

    Attributes:
      name: says what is broken.
      file: path from the root of the repository.
      before: text that occurs exactly once in the file.
      after: what takes its place; must still compile, or the mutation proves nothing.
      test: label of the test that must fail.
    """

    name: str
    file: str
    before: str
    after: str
    test: str

    def problems(self, root: pathlib.Path) -> list[str]:
        """Why it cannot be applied to the tree under `root`; empty if it can."""
        path = root / self.file
        if not path.exists():
            return [f"{self.name}: {self.file} does not exist"]
        found = path.read_text().count(self.before)
        if found != 1:
            return [f"{self.name}: text occurs {found} times in {self.file}, expected once"]
        package, _, target = self.test.removeprefix("//").partition(":")
        build = root / package / "BUILD.bazel"
        if not build.exists() or f'"{target}"' not in build.read_text():
            return [f"{self.name}: no test {self.test}"]
        return []

    def apply(self, root: pathlib.Path) -> None:
        """Changes the file under `root`."""
        path = root / self.file
        path.write_text(path.read_text().replace(self.before, self.after))
