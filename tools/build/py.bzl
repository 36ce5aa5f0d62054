"""Python libraries of this repository: py_library for modules that are known as `pteron.*`.

    load("//tools/build:py.bzl", "py_library")

    py_library(
        name = "partitioner",
        srcs = ["partitioner.py"],  # pteron.exir.backend.partitioner
        deps = [":package"],
    )

In the runfiles `_pteron_py/pteron` is the same tree as `python/pteron` in the checkout, and nothing
of it is found anywhere else.
"""

load("@rules_python//python:defs.bzl", "PyInfo", _py_library = "py_library")
load(":names.bzl", "LIBRARY_FOLDER", "PYTHON_PACKAGE", "PYTHON_ROOT", "has_python_name")

def _path(file):
    """A file's path from the root of its repository."""
    path = file.short_path
    return path.split("/", 2)[2] if path.startswith("../") else path

def _tree(ctx):
    """Sources, data, and the shared libraries that data is linked with, by their path in `pteron`."""
    prefix = PYTHON_PACKAGE + "/"
    tree = {_path(file).removeprefix(prefix): file for file in ctx.files.srcs + ctx.files.data}
    for runfiles in _data_runfiles(ctx):
        for file in runfiles.files.to_list():
            if "_solib" in file.short_path and ".so" in file.basename:
                tree["%s/%s" % (LIBRARY_FOLDER, file.basename)] = file
    return tree

def _data_runfiles(ctx):
    found = [target[DefaultInfo].default_runfiles for target in ctx.attr.data]
    return [runfiles for runfiles in found if runfiles]

def _zipped(ctx, file):
    """The file for a zip, where the package `pteron` finds it."""
    folders = _path(file).split("/")
    if len(folders) != 2 or folders[1] != "__init__.py":
        return file

    # A folder `exir` with an __init__.py would hide one without, in another repository.
    renamed = ctx.actions.declare_file("__init__.zipped.py")
    ctx.actions.symlink(output = renamed, target_file = file)
    return renamed

def _pteron_py_library_impl(ctx):
    if ctx.attr.zipped:
        root = "%s/%s" % (
            ctx.label.workspace_name or ctx.workspace_name,
            PYTHON_PACKAGE.removesuffix("/pteron"),
        )
        files = [_zipped(ctx, file) for file in ctx.files.srcs + ctx.files.data]
        runfiles = ctx.runfiles(files = files).merge_all(_data_runfiles(ctx))
    else:
        root = PYTHON_ROOT
        runfiles = ctx.runfiles(root_symlinks = {
            "%s/pteron/%s" % (root, path): file
            for path, file in _tree(ctx).items()
        })
    infos = [dep[PyInfo] for dep in ctx.attr.deps]
    return [
        DefaultInfo(
            # What `bazel build` makes. A library without sources stands for those that it is made of.
            files = depset(
                ctx.files.srcs + ctx.files.data,
                transitive = [] if ctx.files.srcs else [
                    dep[DefaultInfo].files
                    for dep in ctx.attr.deps
                ],
            ),
            runfiles = runfiles.merge_all([dep[DefaultInfo].default_runfiles for dep in ctx.attr.deps]),
        ),
        # Its own sources are not among them: py_binary would put those in the runfiles again, by
        # their own names.
        PyInfo(
            imports = depset([root], transitive = [info.imports for info in infos]),
            transitive_sources = depset(transitive = [info.transitive_sources for info in infos]),
        ),
        coverage_common.instrumented_files_info(
            ctx,
            dependency_attributes = ["data", "deps"],
            extensions = ["py"],
            source_attributes = ["srcs"],
        ),
    ]

_pteron_py_library = rule(
    implementation = _pteron_py_library_impl,
    attrs = {
        "data": attr.label_list(allow_files = True),
        "deps": attr.label_list(providers = [PyInfo]),
        "srcs": attr.label_list(allow_files = [".py"]),
        "zipped": attr.bool(doc = "Whether this is for a zip, which Bazel fills without such links."),
    },
    provides = [PyInfo],
)

def py_library(name, deps = [], **kwargs):
    """A py_library whose modules are `pteron.<package>.<module>`, if they lie in this repository.

    Args:
        name: the target's name.
        deps: Python libraries.
        **kwargs: srcs, data (which lies beside the modules as in the checkout), common attributes.
    """
    if not has_python_name():
        _py_library(name = name, deps = deps, **kwargs)
        return
    package = Label("//%s" % PYTHON_PACKAGE)
    if native.package_relative_label(name) != package:
        deps = deps + [package]
    _pteron_py_library(
        name = name,
        deps = deps,
        zipped = select({
            Label("//tools/build:python_zip"): True,
            "//conditions:default": False,
        }),
        **kwargs
    )
