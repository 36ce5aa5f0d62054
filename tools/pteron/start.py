"""The command `pteron`: `tools/bazel run //tools/pteron -- --help`."""

import os
import sys

from pteron.command.main import main

if __name__ == "__main__":
    # The folder of `bazel run`; paths on the command line are relative to it.
    os.chdir(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    sys.exit(main())
