"""Style and types of every file: a test over a copy of the source tree, and a program.

tools/bazel test //tools/lint:check
tools/bazel run //tools/lint:check -- runtime exir/emit   # folders and files of the checkout
"""

import os
import sys
from pathlib import Path

from absl.testing import absltest

from tools.lint import lint, source_tree, words
from tools.lint.linters import LINTERS, PACKAGES, run


class CheckTest(absltest.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = Path(self.create_tempdir().full_path)
        source_tree.copy(source_tree.root(), self.root)
        self.files = sorted(source_tree.files(source_tree.root()))

    def test_words_are_those_of_contributing(self) -> None:
        self.assertIn(words.PAGE, self.files)
        self.assertEqual(words.complaints(self.root, self.files), [])

    def test_no_tool_complains(self) -> None:
        for package in PACKAGES:
            (self.root / "python/pteron" / package).symlink_to(self.root / package)
        programs = lint.programs(dict(os.environ))
        for linter in LINTERS:
            with self.subTest(linter.name):
                if linter.name not in programs:
                    self.skipTest(lint.MISSING % linter.name)
                complaint = run(linter, programs[linter.name], "check", self.root, self.files)
                if complaint:
                    self.fail(f"{complaint}\n\n{lint.REMEDY}")


if __name__ == "__main__":
    if "BUILD_WORKSPACE_DIRECTORY" in os.environ:
        sys.exit(lint.main(["check", *sys.argv[1:]]))
    absltest.main()
