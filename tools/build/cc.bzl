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
* A header of the package `runtime/core` is `#include "pteron/runtime/core/NAME.h"`, for its own
  sources and for all others. Visibility hides targets, not headers.
* `unity` is the number of files that a target's sources are put together in to be compiled, so that
  they share their headers and templates. `--//tools/build:unity=false` compiles each on its own:
  better for work on one file, and proof that each includes what it needs.

What both are worth: decisions/2026-11-22-first-build.md.
"""

load("@bazel_skylib//rules:write_file.bzl", "write_file")
load(
    "@rules_cc//cc:defs.bzl",
    _cc_binary = "cc_binary",
    _cc_library = "cc_library",
    _cc_shared_library = "cc_shared_library",
    _cc_test = "cc_test",
)
load(":names.bzl", "include_prefix", "library_path")

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

def _is_header(src):
    return src.endswith((".cuh", ".h", ".inc"))

def _with_named_headers(attributes):
    """Attributes of a program with which a header among its sources is included as others are."""
    headers = [src for src in attributes.get("srcs", []) if _is_header(src)]
    if not headers:
        return attributes
    name = attributes["name"] + "_headers"
    cc_library(
        name = name,
        testonly = attributes.get("testonly"),
        hdrs = headers,
        visibility = ["//visibility:private"],
    )
    return attributes | {
        "srcs": [src for src in attributes["srcs"] if not _is_header(src)],
        "deps": attributes.get("deps", []) + [name],
    }

def _attributes(attributes, deps):
    return _with_std_headers(_united(attributes, deps), deps)

def cc_library(srcs = [], hdrs = [], textual_hdrs = [], **kwargs):
    """rules_cc's cc_library, with `unity`."""
    _cc_library(
        # What is not among them does not get the prefix.
        hdrs = hdrs + textual_hdrs + [src for src in srcs if _is_header(src)],
        include_prefix = include_prefix(),
        **_attributes(
            kwargs | {"srcs": [src for src in srcs if not _is_header(src)]},
            deps = "implementation_deps",
        )
    )

def cc_shared_library(name, user_link_flags = [], **kwargs):
    """rules_cc's cc_shared_library, which may be data of a py_library."""
    _cc_shared_library(
        name = name,
        user_link_flags = user_link_flags + library_path("$ORIGIN"),
        **kwargs
    )

def cc_binary(**kwargs):
    """rules_cc's cc_binary, with `unity`."""
    _cc_binary(**_attributes(_with_named_headers(kwargs), "deps"))

def cc_test(**kwargs):
    """rules_cc's cc_test, with `unity`."""
    _cc_test(**_attributes(_with_named_headers(kwargs), "deps"))
