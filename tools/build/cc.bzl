"""C++ rules of this repository: rules_cc's, for a first build that is over soon.

    load("//tools/build:cc.bzl", "cc_library", "cc_test")

    cc_library(
        name = "program",
        srcs = ["method.cpp", "method_loader.cpp", "program.cpp"],
        hdrs = ["program.h"],
        unity = 2,
    )

* The standard headers are precompiled. Sources still include what they use of them
  (tests/test_std_headers.py sees to it): other compilers, and files with options of their own, read
  the text. `--//tools/build:precompiled_headers=false` makes all do so.
* `unity` is the number of files that a target's sources are put together in to be compiled, so that
  they share their headers and templates. `--//tools/build:unity=false` compiles each on its own:
  better for work on one file, and proof that each includes what it needs.

What both are worth: decisions/2026-11-22-first-build.md.
"""

load("@bazel_skylib//rules:write_file.bzl", "write_file")
load("@rules_cc//cc:defs.bzl", _cc_binary = "cc_binary", _cc_library = "cc_library", _cc_test = "cc_test")

_STD_HEADERS = Label("//tools/build:std_headers")
_UNITY = Label("//tools/build:unity_on")

def _united(attributes, deps):
    """Attributes whose sources are put together in `unity` files."""
    attributes = dict(attributes)
    count = attributes.pop("unity", 0)
    if not count:
        return attributes
    name, package = attributes["name"], native.package_name()
    sources = [src for src in attributes["srcs"] if src.endswith(".cpp")]
    united = []
    for index in range(count):
        united.append("%s_unity_%d.cpp" % (name, index))
        includes = ['#include "%s/%s"' % (package, src) for src in sources[index::count]]
        write_file(
            name = "%s_unity_%d" % (name, index),
            out = united[-1],
            content = includes + [""],
            visibility = ["//visibility:private"],
        )
    _cc_library(
        name = name + "_unity_sources",
        textual_hdrs = sources,
        visibility = ["//visibility:private"],
    )
    headers = [src for src in attributes["srcs"] if src not in sources]
    return attributes | {
        "srcs": headers + select({_UNITY: united, "//conditions:default": sources}),
        deps: attributes.get(deps, []) + [name + "_unity_sources"],
    }

def _with_std_headers(attributes, deps):
    """Attributes with which the standard headers come before each source."""
    if not attributes.get("srcs"):
        return attributes
    include = ["-include", "$(execpath {})".format(_STD_HEADERS)]
    return attributes | {
        "copts": include + attributes.get("copts", []),
        deps: attributes.get(deps, []) + [_STD_HEADERS],
    }

def _attributes(attributes, deps = "deps"):
    return _with_std_headers(_united(attributes, deps), deps)

def cc_library(**kwargs):
    """rules_cc's cc_library, with `unity`."""
    _cc_library(**_attributes(kwargs, deps = "implementation_deps"))

def cc_binary(**kwargs):
    """rules_cc's cc_binary, with `unity`."""
    _cc_binary(**_attributes(kwargs))

def cc_test(**kwargs):
    """rules_cc's cc_test, with `unity`."""
    _cc_test(**_attributes(kwargs))
