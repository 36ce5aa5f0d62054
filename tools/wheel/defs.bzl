"""The rule of //tools/wheel."""

load("//tools/build:names.bzl", "LIBRARY_FOLDER", "PYTHON_ROOT")

def package_tree(ctx):
    """Files by path: the package `pteron` as it is in the runfiles of `deps`.

    Args:
        ctx: of a rule with `deps`.

    Returns:
        a dict.
    """
    prefix = PYTHON_ROOT + "/"
    tree = {}
    for dep in ctx.attr.deps:
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
    dist = ctx.actions.declare_directory("dist")
    tree = package_tree(ctx)
    arguments = ctx.actions.args()
    arguments.use_param_file("%s", use_always = True)
    arguments.set_param_file_format("multiline")
    arguments.add(ctx.attr.version)
    arguments.add(ctx.file.description)
    arguments.add(ctx.file.license)
    arguments.add(dist.path)
    for path, file in sorted((tree | {"pteron": ctx.file.files}).items()):
        arguments.add(path)
        arguments.add(file.path)
    ctx.actions.run(
        executable = ctx.executable._write_wheel,
        arguments = [arguments],
        inputs = tree.values() + [ctx.file.description, ctx.file.files, ctx.file.license],
        outputs = [dist],
        mnemonic = "Wheel",
        progress_message = "Writing the wheel",
    )
    return [DefaultInfo(files = depset([dist]))]

_pteron_wheel = rule(
    implementation = _pteron_wheel_impl,
    attrs = {
        "deps": attr.label_list(),
        "description": attr.label(allow_single_file = [".md"]),
        "files": attr.label(allow_single_file = True, doc = "A folder whose files are in `pteron`."),
        "license": attr.label(allow_single_file = True),
        "version": attr.string(),
        "_write_wheel": attr.label(default = ":write_wheel", executable = True, cfg = "exec"),
    },
)

def pteron_wheel(name, **kwargs):
    """A folder `dist` with one wheel of the package `pteron`.

    Args:
        name: the target's name.
        **kwargs: deps (libraries whose files under `pteron` are in it), description, license, files (of
            //tools/sdk), common attributes.
    """
    _pteron_wheel(name = name, version = native.module_version(), **kwargs)
