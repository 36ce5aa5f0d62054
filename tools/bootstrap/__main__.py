"""Starts the Bazel bootstrap; run by tools/bazel. Parses on old Pythons so that it can refuse them."""

import os
import sys

MIN_PYTHON = (3, 11)


def main():
    if sys.version_info < MIN_PYTHON:
        sys.exit(
            "tools/bazel: %s is Python %d.%d, but 3.11 or newer is needed. Install one and put it "
            "on PATH as python3 or python3.11 (Debian: python3.11 python3.11-dev)."
            % ((sys.executable,) + tuple(sys.version_info[:2]))
        )
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from tools.bootstrap import bootstrap

    bootstrap.main(sys.argv[1:])


main()
