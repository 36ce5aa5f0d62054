"""The checkout's source files as one repository, for tests that read all of them.

Bazel watches the checkout: such a test runs again when a source file changed, and only then.
"""

# Everything that a person writes, by the end of its name.
_SUFFIXES = [
    ".BUILD",
    ".bazel",
    ".bzl",
    ".clang-format",
    ".cpp",
    ".cu",
    ".cuh",
    ".fbs",
    ".h",
    ".inc",
    ".md",
    ".metal",
    ".mm",
    ".py",
    ".pyi",
    "mypy.ini",
    "ruff.toml",
]

# Files by these names would make packages of the repository, which globs do not enter.
_SPECIAL = ["BUILD", "BUILD.bazel", "MODULE.bazel", "REPO.bazel", "WORKSPACE"]

_BUILD = """\
package(default_visibility = ["//visibility:public"])

exports_files(["tree/.root"])

filegroup(
    name = "files",
    srcs = glob(["tree/**"]),
)
"""

def _is_source_folder(path):
    name = path.basename
    return path.is_dir and not name.startswith(".") and not name.startswith("bazel-")

def _source_tree_impl(ctx):
    root = ctx.workspace_root
    entries = root.readdir(watch = "yes")
    folders = [entry for entry in entries if _is_source_folder(entry)]
    for folder in folders:
        ctx.watch_tree(folder)

    names = []
    for suffix in _SUFFIXES:
        names += ["-o", "-name", "*" + suffix]
    paths = [entry for entry in entries if not entry.is_dir] + folders
    found = ctx.execute(["find"] + paths + ["-type", "f", "("] + names[1:] + [")"])
    if found.return_code != 0:
        fail("Listing the source files of %s failed: %s" % (root, found.stderr))

    ctx.file("tree/.root")
    for path in found.stdout.splitlines():
        relative = path[len(str(root)) + 1:]
        if relative.split("/")[-1] in _SPECIAL:
            relative += ".source"
        ctx.symlink(path, "tree/" + relative)
    ctx.file("BUILD.bazel", _BUILD)

source_tree = repository_rule(
    implementation = _source_tree_impl,
    doc = """Links to the checkout's source files, under `tree/`, as the target `:files`.

BUILD.bazel and its like have `.source` appended; tools/lint/source_tree.py undoes that.""",
    local = True,
)
