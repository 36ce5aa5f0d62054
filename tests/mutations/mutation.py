"""One small, wrong change of the code, and the test that must notice it."""

from __future__ import annotations

import ast
import dataclasses
import pathlib


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mutation:
    """Text of one file that is replaced, and who must fail then.

    Attributes:
      topic: the promise that it breaks; one of `mutations.TOPICS`.
      name: says what is broken; unique.
      file: path from the root of the repository.
      before: text that occurs exactly once in the file.
      after: what takes its place; must still compile, or the mutation proves nothing.
      test: label of the test that must fail.
      case: which of the test's cases to run, as `--test_filter` takes it; "" for all. Spares the
        slow ones where a quick one is the guard.
    """

    topic: str
    name: str
    file: str
    before: str
    after: str
    test: str
    case: str = ""

    @property
    def is_python(self) -> bool:
        """Whether the file is Python, so that no build stands between it and the test."""
        return self.file.endswith(".py")

    def problems(self, root: pathlib.Path) -> list[str]:
        """Why it cannot be applied to the tree under `root`; empty if it can."""
        path = root / self.file
        if not path.exists():
            return [f"{self.name}: {self.file} does not exist"]
        text = path.read_text()
        found = text.count(self.before)
        if found != 1:
            return [f"{self.name}: text occurs {found} times in {self.file}, expected once"]
        if self.is_python:
            try:
                ast.parse(text.replace(self.before, self.after))
            except SyntaxError as error:
                return [f"{self.name}: {self.file} does not parse afterwards ({error})"]
        package, _, target = self.test.removeprefix("//").partition(":")
        build = root / package / "BUILD.bazel"
        if not build.exists() or f'"{target}"' not in build.read_text():
            return [f"{self.name}: no test {self.test}"]
        return []
