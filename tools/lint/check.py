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
    def test_words_are_those_of_contributing(self) -> None:
        files = sorted(source_tree.files(source_tree.root()))
        self.assertEqual(words.complaints(source_tree.root(), files), [])

    def test_no_tool_complains(self) -> None:
        root = Path(self.create_tempdir().full_path)
        source_tree.copy(source_tree.root(), root)
        for package in PACKAGES:
            (root / "python/pteron" / package).symlink_to(root / package)
        files = sorted(source_tree.files(source_tree.root()))
        programs = lint.programs(dict(os.environ))
        for linter in LINTERS:
            with self.subTest(linter.name):
                if linter.name not in programs:
                    self.skipTest(lint.MISSING % linter.name)
                complaint = run(linter, programs[linter.name], "check", root, files)
                if complaint:
                    self.fail(f"{complaint}\n\n{lint.REMEDY}")


if __name__ == "__main__":
    if "BUILD_WORKSPACE_DIRECTORY" in os.environ:
        sys.exit(lint.main(["check", *sys.argv[1:]]))
    absltest.main()
