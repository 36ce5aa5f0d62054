"""By which names the files of this repository are known: `pteron.*` in Python, `pteron/...` in C++.

The folders stand at the top of the repository, without a `pteron` around them, so the rules that
know these names put it there.
"""

# The package `pteron`, with links to the folders that are packages in it. Not at the top, where
# compilers without a sandbox would find headers through those links.
PYTHON_PACKAGE = "python/pteron"

_PYTHON_FOLDERS = ["backends", "exir", "runtime"]

# The folder of the runfiles that holds `pteron`. Each folder of the runfiles' root is on Python's
# path, so one level less would make the folders importable by their own names, too.
PYTHON_ROOT = "_pteron_py"

# In `pteron`, the shared libraries that others are linked with.
LIBRARY_FOLDER = "lib"

def _is_ours():
    return native.package_relative_label(":x").repo_name == Label("//:x").repo_name

# buildifier: disable=unnamed-macro
def include_prefix():
    """What the `#include` of a header of this package begins with.

    Returns:
        "pteron/<package>"; None in another repository, whose names are its own.
    """
    return "pteron/" + native.package_name() if _is_ours() else None

# buildifier: disable=unnamed-macro
def has_python_name():
    """Whether modules of this package are known as `pteron.*`."""
    package = native.package_name()
    return _is_ours() and (package == PYTHON_PACKAGE or package.split("/")[0] in _PYTHON_FOLDERS)

# buildifier: disable=unnamed-macro
def library_path(origin):
    """The linker's options for a library that Python opens, so that it finds those that it needs.

    Bazel's own options lead to its folder of all libraries, which `pteron` has under another name.

    Args:
        origin: "$ORIGIN" as the rule wants it written.

    Returns:
        a list; empty in packages whose libraries are elsewhere.
    """
    if not has_python_name():
        return []
    up = "/".join([".."] * len(native.package_name().split("/")))

    # The wheel and the SDK have libraries side by side.
    return ["-Wl,-rpath,%s" % origin, "-Wl,-rpath,%s/%s/%s" % (origin, up, LIBRARY_FOLDER)]
