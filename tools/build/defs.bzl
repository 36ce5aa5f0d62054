"""Macros for targets of this repository.

    load("//tools/build:defs.bzl", "pytest_test")

    pytest_test(
        name = "test_partitioner",
        srcs = ["test_partitioner.py"],
        deps = ["//exir/backend:partitioner"],
    )
"""

load("@rules_python//python:defs.bzl", "py_test")
load(":names.bzl", "PYTHON_ROOT", "has_python_name")
load(":py.bzl", "py_library")

def _is_test_module(src):
    basename = str(src).replace(":", "/").split("/")[-1]
    return basename.startswith("test_") and basename.endswith(".py")

def pytest_test(name, srcs, data = [], deps = [], args = [], **kwargs):
    """A py_test that runs the pytest tests in its sources.

    `--test_filter=EXPRESSION` becomes pytest's `-k`, `--test_arg` goes to pytest, shard_count and
    Bazel's XML reports work. HOME and temporary files are the test's own.

    Args:
        name: the target's name.
        srcs: modules named `test_*.py`, which pytest collects, and helpers, which it does not.
        data: files that they read: in the tree of `pteron`, and by `$(rootpath)`.
        deps: what they import besides pytest.
        args: further arguments of pytest.
        **kwargs: further attributes of the py_test (env, size, tags, ...).
    """
    modules = [src for src in srcs if _is_test_module(src)]
    if not modules:
        fail("{}: no test_*.py in srcs, found {}".format(name, srcs))
    main = Label("//tools/build:pytest_main.py")
    common = dict(kwargs, main = main, data = data)
    if not has_python_name():
        py_test(
            name = name,
            srcs = srcs + [main],
            args = ["$(rootpath {})".format(module) for module in modules] + args,
            deps = deps + [Label("@pypi//pytest")],
            **common
        )
        return

    # The modules are under the same names as what they test.
    py_library(
        name = name + "_sources",
        testonly = True,
        srcs = srcs,
        data = data,
        target_compatible_with = kwargs.get("target_compatible_with"),
        visibility = ["//visibility:private"],
        deps = deps,
    )
    root = "../" + PYTHON_ROOT
    folder = "{}/pteron/{}/".format(root, native.package_name())
    py_test(
        name = name,
        srcs = [main],
        args = ["--rootdir=" + root] + [folder + module for module in modules] + args,
        deps = [name + "_sources", Label("@pypi//pytest")],
        **common
    )
