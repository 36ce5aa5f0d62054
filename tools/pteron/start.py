"""The command `pteron`: `tools/bazel run //tools/pteron -- --help`."""

import os
import sys

from pteron.command.main import main

if __name__ == "__main__":
    # Where `bazel run` was called, which files on the command line are relative to.
    os.chdir(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    sys.exit(main())
