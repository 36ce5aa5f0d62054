"""Repository rules for Python wheels: one repository a wheel, and the hub that names them all."""

load(":cache.bzl", "wheel_store")

_WHEEL_BUILD = """\
load("@rules_cc//cc:defs.bzl", "cc_library")
load("@rules_python//python:defs.bzl", "py_library")

package(
    default_testonly = {testonly},
    default_visibility = ["//visibility:public"],
)

# One directory, not its files: torch alone has 15,000.
py_library(
    name = "pkg",
    data = ["site-packages"],
    imports = ["site-packages"],
    deps = {deps},
)

exports_files(["site-packages"])
"""

_HEADERS_BUILD = """
cc_library(
    name = "headers",
    hdrs = ["include"],
    includes = ["include"],
)
"""

_FILE_BUILD = """
filegroup(
    name = {name},
    srcs = [{file}],
)
"""

_HUB_BUILD = """\
package(
    default_testonly = {testonly},
    default_visibility = ["//visibility:public"],
)
"""

_ALIAS_BUILD = """
alias(
    name = {name},
    actual = {actual},
)
"""

def install_wheels(repository_ctx, wheels, lock, remedy = ""):
    """Installs wheels together into the wheel store.

    Args:
        repository_ctx: context of the repository rule that asks.
        wheels: list of dicts with name, version and files, as in a lock.
        lock: the lock's path, for messages.
        remedy: what to try when a wheel is not to be had; empty or a line with its newline.

    Returns:
        path of the directory that holds the wheels' files.
    """
    facts = json.decode(repository_ctx.read(Label("@local_python//:python.json")))
    script = repository_ctx.path(Label("//third_party/python:wheel_store.py"))
    names = ", ".join(["%s %s" % (wheel["name"], wheel["version"]) for wheel in wheels])
    repository_ctx.report_progress("installing " + names)
    repository_ctx.file("request.json", json.encode_indent({
        "lock": lock,
        "remedy": remedy,
        "wheels": wheels,
    }))
    result = repository_ctx.execute(
        [facts["executable"], script, wheel_store(repository_ctx), "request.json"],
        timeout = 3600,
    )
    if result.return_code != 0:
        fail("\n" + result.stderr.strip())
    return repository_ctx.path(result.stdout.strip())

def other_python_error(python, found, needed):
    """The text of the error for an environment of another Python than the build's.

    Args:
        python: the environment's interpreter, as the user named it.
        found: its version, [major, minor].
        needed: the build's, [major, minor, micro].

    Returns:
        the text; None if both are the same.
    """
    if found == needed[:2]:
        return None
    return ("PTERON_TORCH=%s is Python %d.%d and the build's is %d.%d. Name the Python that it was " +
            "made of with --repo_env=PTERON_PYTHON=<path>.") % tuple([python] + found + needed[:2])

def _link_installed(repository_ctx, name):
    """Links to a package of another environment, with all that it requires and no wheel of ours is.

    Args:
        repository_ctx: context of a wheel_repository.
        name: the package's name.

    Returns:
        path of a directory as `install_wheels` fills it.
    """
    attr = repository_ctx.attr
    python = repository_ctx.path(attr.installed)
    if python.is_dir:
        python = python.get_child("bin", "python")
    if not python.exists:
        fail("PTERON_TORCH=%s: there is no %s." % (attr.installed, python))
    script = repository_ctx.path(Label("//third_party/python:installed.py"))
    result = repository_ctx.execute([python, "-I", script, name] + attr.pinned)
    if result.return_code != 0:
        fail("PTERON_TORCH=%s: %s" % (attr.installed, result.stderr.strip()))
    found = json.decode(result.stdout)
    facts = json.decode(repository_ctx.read(Label("@local_python//:python.json")))
    error = other_python_error(attr.installed, found["python"], facts["version"])
    if error:
        fail(error)
    repository_ctx.watch(found["watch"])  # Another release in the same environment is noticed.
    for entry, path in found["entries"].items():
        repository_ctx.symlink(path, "installed/" + entry)
    return repository_ctx.path("installed")

def _wheel_impl(repository_ctx):
    attr = repository_ctx.attr
    wheel = json.decode(attr.wheel)
    if attr.installed:
        installed = _link_installed(repository_ctx, wheel["name"])
    else:
        installed = install_wheels(repository_ctx, [wheel], attr.lock, attr.remedy)
    repository_ctx.symlink(installed, "site-packages")
    build = _WHEEL_BUILD.format(
        deps = repr(["@%s//:pkg" % dep for dep in attr.wheel_deps]),
        testonly = attr.is_testonly,
    )
    if attr.headers:
        # A second way to the same files: an action can't have a directory and a part of it.
        repository_ctx.symlink(installed.get_child(attr.headers), "include")
        build += _HEADERS_BUILD
    for name, path in attr.files.items():
        file = "files/" + path.split("/")[-1]
        repository_ctx.symlink(installed.get_child(path), file)
        build += _FILE_BUILD.format(name = repr(name), file = repr(file))
    repository_ctx.file("BUILD.bazel", build)

wheel_repository = repository_rule(
    implementation = _wheel_impl,
    doc = "One wheel of a lock, installed when a target that needs it is built.",
    attrs = {
        "files": attr.string_dict(doc = "Target name to path in the wheel, for single files."),
        "headers": attr.string(doc = "Directory of C++ headers in the wheel; empty for none."),
        "installed": attr.string(
            doc = "A virtual environment, or a Python, that has the package; it is then used as it is.",
        ),
        "is_testonly": attr.bool(),
        "lock": attr.string(doc = "Path of the lock, for messages."),
        "pinned": attr.string_list(doc = "With `installed`: packages that wheels of ours are for."),
        "remedy": attr.string(doc = "What to try when the wheel is not to be had."),
        "wheel": attr.string(doc = "The wheel's entry in the lock, as JSON.", mandatory = True),
        "wheel_deps": attr.string_list(doc = "Repositories of the wheels that this one imports."),
    },
)

def _hub_impl(repository_ctx):
    testonly = repository_ctx.attr.is_testonly
    for name, repository in repository_ctx.attr.wheels.items():
        build = _HUB_BUILD.format(testonly = testonly)
        targets = {name: "pkg", "pkg": "pkg"}
        targets.update({extra: extra for extra in repository_ctx.attr.extras.get(name, [])})
        for target, actual in targets.items():
            build += _ALIAS_BUILD.format(
                name = repr(target),
                actual = repr("@%s//:%s" % (repository, actual)),
            )
        repository_ctx.file(name + "/BUILD.bazel", build)
    repository_ctx.file("BUILD.bazel", "")

hub_repository = repository_rule(
    implementation = _hub_impl,
    doc = "Names for wheels: @HUB//numpy is the py_library of the wheel numpy.",
    attrs = {
        "extras": attr.string_list_dict(doc = "Further targets of a wheel."),
        "is_testonly": attr.bool(),
        "wheels": attr.string_dict(doc = "Name to repository."),
    },
)
