"""C++ rules of this repository: rules_cc's, with headers known as `pteron/...`.

    load("//tools/build:cc.bzl", "cc_library", "cc_test")

A header of the package `runtime/core` is `#include "pteron/runtime/core/NAME.h"`, for its own sources
and for all others. Visibility hides targets, not headers.
"""

load(
    "@rules_cc//cc:defs.bzl",
    _cc_binary = "cc_binary",
    _cc_library = "cc_library",
    _cc_shared_library = "cc_shared_library",
    _cc_test = "cc_test",
)
load(":names.bzl", "include_prefix", "library_path")

def _is_header(src):
    return src.endswith((".cuh", ".h", ".inc"))

def _with_named_headers(attributes):
    """Attributes of a program by which headers in its srcs are included as `pteron/...`."""
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

def cc_library(srcs = [], hdrs = [], textual_hdrs = [], **kwargs):
    """rules_cc's cc_library."""
    _cc_library(
        srcs = [src for src in srcs if not _is_header(src)],
        # Only these get the prefix.
        hdrs = hdrs + textual_hdrs + [src for src in srcs if _is_header(src)],
        include_prefix = include_prefix(),
        **kwargs
    )

def cc_shared_library(name, user_link_flags = [], **kwargs):
    """rules_cc's cc_shared_library, which may be data of a py_library."""
    _cc_shared_library(
        name = name,
        user_link_flags = user_link_flags + library_path("$ORIGIN"),
        **kwargs
    )

def cc_binary(**kwargs):
    """rules_cc's cc_binary."""
    _cc_binary(**_with_named_headers(kwargs))

def cc_test(**kwargs):
    """rules_cc's cc_test."""
    _cc_test(**_with_named_headers(kwargs))
