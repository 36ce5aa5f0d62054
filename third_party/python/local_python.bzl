"""The machine's own Python as a toolchain: `@local_python`.

    @local_python//:toolchain   for register_toolchains
    @local_python//:runtime     the interpreter
    @local_python//:headers     Python.h, for extension modules
    @local_python//:python.json the facts, for repository rules

The interpreter is the first suitable one of $PTERON_PYTHON (nothing else is tried when it is set),
then python3.11 to python3.14 and python3 in every directory of PATH. Suitable means CPython 3.11 or
newer with headers and pip, not free-threaded. Programs run it through a private virtual environment
without packages, so that what is installed on the machine never reaches a target by accident.
"""

load(":cache.bzl", "cache_directory", "wheel_store")

_MIN_VERSION = [3, 11]
_NAMES = ["python3.11", "python3.12", "python3.13", "python3.14", "python3"]

_BUILD = """\
load("@rules_cc//cc:defs.bzl", "cc_library")
load("@rules_python//python:defs.bzl", "py_runtime", "py_runtime_pair")

package(default_visibility = ["//visibility:public"])

exports_files(["python.json"])

py_runtime(
    name = "runtime",
    interpreter_path = {interpreter},
    python_version = "PY3",
    stub_shebang = {shebang},
)

py_runtime_pair(
    name = "runtime_pair",
    py3_runtime = ":runtime",
)

toolchain(
    name = "toolchain",
    toolchain = ":runtime_pair",
    toolchain_type = "@bazel_tools//tools/python:toolchain_type",
)

cc_library(
    name = "headers",
    hdrs = ["include"],
    includes = ["include"],
)
"""

def unsuitable(facts):
    """What keeps an interpreter from being used.

    Args:
        facts: what `interpreter.py probe` printed, decoded.

    Returns:
        a list of phrases, empty for a suitable interpreter.
    """
    version = [int(part) for part in facts["version"]]
    shown = ".".join([str(part) for part in version])
    problems = []
    if facts["implementation"] != "cpython":
        problems.append("it is %s, not CPython" % facts["implementation"])
    if facts["is_free_threaded"]:
        problems.append("it is free-threaded, which the bindings are not made for")
    if version < _MIN_VERSION:
        problems.append("it is Python %s, not 3.11 or newer" % shown)
    else:
        name = "%d.%d" % (version[0], version[1])
        if not facts["has_headers"]:
            problems.append("Python.h is not in %s (Debian: install python%s-dev)" %
                            (facts["include"], name))
        if not facts["pip"]:
            problems.append("pip is missing (Debian: install python3-pip)")
    return problems

def no_python_error(rejected, asked):
    """The text of the error for a machine without a suitable interpreter.

    Args:
        rejected: list of (path, list of phrases).
        asked: the value of PTERON_PYTHON, or None.

    Returns:
        the text, of several lines.
    """
    lines = ["No suitable Python. Needed: CPython 3.11 or newer with its headers and pip."]
    for path, problems in rejected:
        lines.append("  %s: %s" % (path, "; ".join(problems)))
    if not rejected:
        lines.append("  PATH has no %s." % " or ".join(_NAMES))
    if asked:
        lines.append("PTERON_PYTHON=%s was asked for; unset it to search PATH." % asked)
    else:
        lines.append("Install what is missing, or name an interpreter elsewhere: " +
                     "--repo_env=PTERON_PYTHON=/path/to/python3")
    return "\n".join(lines)

def _probe(repository_ctx, path):
    """Facts about the interpreter behind `path`, and why it is unsuitable (a list of phrases)."""
    script = repository_ctx.path(Label("//third_party/python:interpreter.py"))
    facts = None
    for _ in range(2):  # a virtual environment, then the interpreter behind it
        result = repository_ctx.execute([path, script, "probe"])
        if result.return_code != 0:
            output = (result.stderr + result.stdout).strip().split("\n")
            return None, ["it does not run (%s)" % output[0]]
        facts = json.decode(result.stdout)
        if not facts["is_virtual"]:
            break
        path = facts["executable"]
    return facts, unsuitable(facts)

def _candidates(repository_ctx, asked):
    if asked:
        path = asked if "/" in asked else repository_ctx.which(asked)
        return [str(path or asked)]
    directories = (repository_ctx.getenv("PATH") or "").split(":")
    paths = ["%s/%s" % (d, name) for name in _NAMES for d in directories if d.startswith("/")]
    return [path for path in paths if repository_ctx.path(path).exists]

def _find(repository_ctx):
    asked = repository_ctx.getenv("PTERON_PYTHON")
    rejected = []
    for path in _candidates(repository_ctx, asked):
        facts, problems = _probe(repository_ctx, path)
        if not problems:
            return facts
        rejected.append((path, problems))
    fail(no_python_error(rejected, asked))

def _local_python_impl(repository_ctx):
    facts = _find(repository_ctx)
    executable = facts["executable"]

    script = repository_ctx.path(Label("//third_party/python:interpreter.py"))
    parent = cache_directory(repository_ctx) + "/python"
    made = repository_ctx.execute([executable, script, "make", parent])
    if made.return_code != 0:
        fail("Can't make a virtual environment in %s:\n%s\nSet XDG_CACHE_HOME to a writable directory." %
             (parent, made.stderr.strip().split("\n")[-1]))
    private = made.stdout.strip()
    interpreter = private + "/bin/python3"

    # A kernel cuts long #! lines and splits them at spaces.
    is_plain = " " not in interpreter and len(interpreter) < 120
    repository_ctx.symlink(facts["include"], "include")
    repository_ctx.file("python.json", json.encode_indent({
        "cache": cache_directory(repository_ctx),
        "executable": executable,
        "interpreter": interpreter,
        "version": facts["version"],
        "wheel_store": wheel_store(repository_ctx),
    }))
    repository_ctx.file("version.bzl", "VERSION = \"%d.%d\"\n" % tuple(facts["version"][:2]))
    repository_ctx.file("BUILD.bazel", _BUILD.format(
        interpreter = repr(interpreter),
        shebang = repr("#!" + (interpreter if is_plain else "/usr/bin/env python3")),
    ))

local_python = repository_rule(
    implementation = _local_python_impl,
    doc = "Finds the machine's Python. Takes no attributes; see the top of this file.",
    local = True,
    configure = True,
)
