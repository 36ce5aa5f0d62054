"""The rule of //tools/wheel."""

load("//tools/build:names.bzl", "LIBRARY_FOLDER", "PYTHON_ROOT")

def package_tree(deps):
    """Files by path: the package `pteron` as it is in the runfiles of targets.

    Args:
        deps: the targets.

    Returns:
        a dict.
    """
    prefix = PYTHON_ROOT + "/"
    tree = {}
    for dep in deps:
        for link in dep[DefaultInfo].default_runfiles.root_symlinks.to_list():
            if link.path.startswith(prefix):
                tree[link.path.removeprefix(prefix)] = link.target_file

    # Libraries of backends are in both places; libpteron.so looks for them beside itself.
    folder = "pteron/%s/" % LIBRARY_FOLDER
    libraries = [file.basename for path, file in tree.items() if path.startswith(folder)]
    return {
        path: file
        for path, file in tree.items()
        if path.startswith(folder) or file.basename not in libraries
    }

def _pteron_wheel_impl(ctx):
    # The file's name has tags that are known when it is written.
    dist = ctx.actions.declare_directory(ctx.attr.dist)
    tree = package_tree(ctx.attr.deps) | {"pteron": ctx.file.files}
    others = package_tree(ctx.attr.requires) | {"pteron": None} if ctx.attr.requires else {}
    arguments = ctx.actions.args()
    arguments.use_param_file("%s", use_always = True)
    arguments.set_param_file_format("multiline")
    arguments.add(ctx.attr.distribution)
    arguments.add(ctx.attr.version)
    arguments.add(ctx.file.description)
    arguments.add(ctx.file.license)
    arguments.add(dist.path)
    for path, file in sorted(tree.items()):
        arguments.add(path)
        arguments.add(file.path)
        arguments.add("other" if path in others else "own")
    ctx.actions.run(
        executable = ctx.executable._write_wheel,
        arguments = [arguments],
        inputs = tree.values() + [ctx.file.description, ctx.file.license],
        outputs = [dist],
        mnemonic = "Wheel",
        progress_message = "Writing the wheel",
    )
    return [DefaultInfo(files = depset([dist]))]

_pteron_wheel = rule(
    implementation = _pteron_wheel_impl,
    attrs = {
        "deps": attr.label_list(),
        "dist": attr.string(),
        "distribution": attr.string(default = "pteron"),
        "description": attr.label(allow_single_file = [".md"], default = "//:README.md"),
        "files": attr.label(allow_single_file = True, default = "//tools/sdk:files"),
        "license": attr.label(allow_single_file = True, default = "//:LICENSE"),
        "requires": attr.label_list(),
        "version": attr.string(),
        "_write_wheel": attr.label(default = ":write_wheel", executable = True, cfg = "exec"),
    },
)

def pteron_wheel(name, dist = "", **kwargs):
    """A folder with one wheel of the package `pteron`.

    Args:
        name: the target's name.
        dist: the folder's name; by default `dist_<name>`.
        **kwargs: deps (libraries whose files under `pteron` are in it), distribution (its name, if
            it is not `pteron`), requires (what the wheel `pteron` has, so that this one has only the
            rest and requires that one), common attributes.
    """
    _pteron_wheel(
        name = name,
        dist = dist or "dist_" + name,
        version = native.module_version(),
        **kwargs
    )
