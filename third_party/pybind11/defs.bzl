"""Python extension modules in C++, written with pybind11.

    load("@pteron//third_party/pybind11:defs.bzl", "pybind_extension")

    pybind_extension(
        name = "_session",
        srcs = ["session_bindings.cpp"],  # PYBIND11_MODULE(_session, m) { ... }
        deps = ["//runtime/executor:session"],
    )

    py_library(name = "session", srcs = ["session.py"], deps = [":_session"])
"""

load("//tools/build:cc.bzl", "cc_binary")
load("//tools/build:names.bzl", "library_path")
load("//tools/build:py.bzl", "py_library")

_COMMON = ["compatible_with", "restricted_to", "tags", "target_compatible_with", "testonly"]

def pybind_extension(
        name,
        srcs,
        deps = [],
        copts = [],
        linkopts = [],
        data = [],
        visibility = None,
        **kwargs):
    """A C++ extension module, as a py_library that other Python targets depend on.

    The module imports as `<package, dotted>.<name>`, in this repository with `pteron.` before it. Also makes the target `<name>.so`.

    Args:
        name: name of the module, the one in its PYBIND11_MODULE.
        srcs: C++ sources.
        deps: C++ libraries; pybind11 and Python.h are added.
        copts: further compiler options.
        linkopts: further linker options.
        data: files that the module opens when it runs.
        visibility: of both targets.
        **kwargs: further attributes of the cc_binary (dynamic_deps, tags, ...).
    """
    cc_binary(
        name = name + ".so",
        srcs = srcs,
        # Dependents do not inherit our .bazelrc, so the standard is set here too.
        copts = ["-std=c++17", "-fvisibility=hidden"] + copts,
        linkopts = linkopts + library_path("$$ORIGIN"),
        linkshared = True,
        linkstatic = True,
        visibility = visibility,
        deps = deps + [Label("//third_party/pybind11")],
        **kwargs
    )
    py_library(
        name = name,
        data = [name + ".so"] + data,
        visibility = visibility,
        **{key: kwargs[key] for key in _COMMON if key in kwargs}
    )
