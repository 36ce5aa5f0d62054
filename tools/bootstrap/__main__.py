"""Starts the Bazel bootstrap; run by tools/bazel. Parses on old Pythons, to refuse them."""

import os
import sys

MIN_PYTHON = (3, 11)


def main():
    if sys.version_info < MIN_PYTHON:
        sys.exit(
            "tools/bazel: error: %s is Python %d.%d, but 3.11 or newer is needed. Install one "
            "(Debian: python3 python3-dev python3-pip), or set PTERON_PYTHON to its path."
            % ((sys.executable,) + tuple(sys.version_info[:2]))
        )
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from tools.bootstrap import bootstrap

    bootstrap.main(sys.argv[1:])


main()
