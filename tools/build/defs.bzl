"""Macros for targets of this repository.

    load("//tools/build:defs.bzl", "pytest_test")

    pytest_test(
        name = "test_partitioner",
        srcs = ["test_partitioner.py"],
        deps = ["//exir/backend:partitioner"],
    )
"""

load("@rules_python//python:defs.bzl", "py_test")

def _is_test_module(src):
    basename = str(src).replace(":", "/").split("/")[-1]
    return basename.startswith("test_") and basename.endswith(".py")

def pytest_test(name, srcs, deps = [], args = [], **kwargs):
    """A py_test that runs the pytest tests in its sources.

    `--test_filter=EXPRESSION` becomes pytest's `-k`, `--test_arg` goes to pytest, shard_count and
    Bazel's XML reports work. HOME and temporary files are the test's own.

    Args:
        name: the target's name.
        srcs: modules named `test_*.py`, which pytest collects, and helpers, which it does not.
        deps: what they import besides pytest.
        args: further arguments of pytest.
        **kwargs: further attributes of the py_test (data, size, tags, ...).
    """
    modules = [src for src in srcs if _is_test_module(src)]
    if not modules:
        fail("{}: no test_*.py in srcs, found {}".format(name, srcs))
    main = Label("//tools/build:pytest_main.py")
    py_test(
        name = name,
        srcs = srcs + [main],
        main = main,
        args = ["$(rootpath {})".format(module) for module in modules] + args,
        deps = deps + [Label("@pypi//pytest")],
        **kwargs
    )
