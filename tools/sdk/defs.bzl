"""The rules of //tools/sdk."""

load("@rules_cc//cc:defs.bzl", "CcInfo")
load("//tools/build:names.bzl", "LIBRARY_FOLDER")
load("//tools/wheel:defs.bzl", "package_tree")

def _lines(ctx, arguments):
    args = ctx.actions.args()
    args.use_param_file("%s", use_always = True)
    args.set_param_file_format("multiline")
    args.add_all(arguments)
    return args

def _sdk_files_impl(ctx):
    folder = ctx.actions.declare_directory(ctx.label.name)
    known = {
        "pteron/" + header.short_path: header
        for dep in ctx.attr.deps
        for header in dep[CcInfo].compilation_context.headers.to_list()
        if not header.is_directory and "_virtual_includes/" not in header.short_path and
           not header.short_path.startswith("../")
    }
    others = {
        "%s/%s" % (place, file.basename): file
        for target, place in ctx.attr.others.items()
        for file in target.files.to_list()
    }
    arguments = [folder.path, ctx.attr.version, len(ctx.attr.headers)] + ctx.attr.headers
    for path, file in sorted((known | others).items()):
        arguments += [path, file.path]
    ctx.actions.run(
        executable = ctx.executable._write_files,
        arguments = [_lines(ctx, [str(argument) for argument in arguments])],
        inputs = known.values() + others.values(),
        outputs = [folder],
        mnemonic = "SdkFiles",
    )
    return [DefaultInfo(files = depset([folder]))]

_sdk_files = rule(
    implementation = _sdk_files_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "headers": attr.string_list(),
        "others": attr.label_keyed_string_dict(allow_files = True),
        "version": attr.string(),
        "_write_files": attr.label(default = ":write_files", executable = True, cfg = "exec"),
    },
)

def sdk_files(name, **kwargs):
    """A folder with what a program needs to be compiled without Bazel: all but the libraries.

    Args:
        name: the target's name, and the folder's.
        **kwargs: deps (C++ libraries, whose headers it may have), headers (those that it has, as
            `#include` has them; what they include comes along), others (files, with their folder;
            `@VERSION@` in them is replaced), common attributes.
    """
    _sdk_files(name = name, version = native.module_version(), **kwargs)

def _sdk_archive_impl(ctx):
    archive = ctx.actions.declare_file("%s.tar.gz" % ctx.attr.archive)
    libraries = {
        path.removeprefix("pteron/"): file
        for path, file in package_tree(ctx.attr.deps).items()
        if path.startswith("pteron/%s/" % LIBRARY_FOLDER)
    }
    arguments = [archive.path, ctx.attr.archive, ctx.file.files.path]
    for path, file in sorted(libraries.items()):
        arguments += [path, file.path]
    ctx.actions.run(
        executable = ctx.executable._write_archive,
        arguments = [_lines(ctx, arguments)],
        inputs = libraries.values() + [ctx.file.files],
        outputs = [archive],
        mnemonic = "SdkArchive",
        progress_message = "Writing %s" % archive.basename,
    )
    return [DefaultInfo(files = depset([archive]))]

_sdk_archive = rule(
    implementation = _sdk_archive_impl,
    attrs = {
        "archive": attr.string(),
        "deps": attr.label_list(),
        "files": attr.label(allow_single_file = True),
        "_write_archive": attr.label(default = ":write_archive", executable = True, cfg = "exec"),
    },
)

def sdk_archive(name, suffix = "", **kwargs):
    """An archive `pteron-<version>-linux_x86_64.tar.gz`: a folder of that name with files and libraries.

    Args:
        name: the target's name.
        suffix: of the archive's name.
        **kwargs: files (of sdk_files), deps (Python libraries of backends, which have their
            libraries), common attributes.
    """
    archive = "pteron-%s-linux_x86_64%s" % (native.module_version(), suffix)
    _sdk_archive(name = name, archive = archive, **kwargs)
