"""C++ rules of this repository: rules_cc's, with the standard headers precompiled.

    load("//tools/build:cc.bzl", "cc_library", "cc_test")

Reading the standard library is a third of what it takes to compile one of our files. Sources still
include what they use (tests/test_std_headers.py sees to it): other compilers, and files with options
of their own, read the text. `--//tools/build:precompiled_headers=false` makes all do so.
"""

load("@rules_cc//cc:defs.bzl", _cc_binary = "cc_binary", _cc_library = "cc_library", _cc_test = "cc_test")

_STD_HEADERS = Label("//tools/build:std_headers")

def _with_std_headers(attributes, deps = "deps"):
    if not attributes.get("srcs"):
        return attributes
    include = ["-include", "$(execpath {})".format(_STD_HEADERS)]
    return attributes | {
        "copts": include + attributes.get("copts", []),
        deps: attributes.get(deps, []) + [_STD_HEADERS],
    }

def cc_library(**kwargs):
    """rules_cc's cc_library."""
    _cc_library(**_with_std_headers(kwargs, deps = "implementation_deps"))

def cc_binary(**kwargs):
    """rules_cc's cc_binary."""
    _cc_binary(**_with_std_headers(kwargs))

def cc_test(**kwargs):
    """rules_cc's cc_test."""
    _cc_test(**_with_std_headers(kwargs))
