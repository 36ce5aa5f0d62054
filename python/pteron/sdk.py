"""Where the wheel has headers and libraries for C and C++ programs (docs/cpp.md).

export CMAKE_PREFIX_PATH=$(python -c "import pteron; print(pteron.cmake_prefix_path())")
cmake -S . -B build
"""

import os

_ROOT = os.path.dirname(os.path.abspath(__file__))


def include_dir() -> str:
    """The folder for `-I`: of `#include "pteron/runtime/module.h"`.

    Raises:
        FileNotFoundError: this `pteron` is not that of a wheel.
    """
    return _existing("include")


def cmake_prefix_path() -> str:
    """The folder for `CMAKE_PREFIX_PATH`, with which `find_package(pteron)` succeeds.

    Raises:
        FileNotFoundError: as of include_dir().
    """
    include_dir()
    return _ROOT


def pkg_config_path() -> str:
    """The folder for `PKG_CONFIG_PATH`, with which `pkg-config --cflags --libs pteron` succeeds.

    Raises:
        FileNotFoundError: as of include_dir().
    """
    return _existing("lib", "pkgconfig")


def _existing(*names: str) -> str:
    path = os.path.join(_ROOT, *names)
    if not os.path.isdir(path):
        raise FileNotFoundError(
            f"no folder {path}: only the wheel has headers. Install it, depend on "
            "@pteron//runtime:module in Bazel, or build @pteron//tools/sdk"
        )
    return path
