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

def _wheel_impl(repository_ctx):
    attr = repository_ctx.attr
    wheel = json.decode(attr.wheel)
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
        "is_testonly": attr.bool(),
        "lock": attr.string(doc = "Path of the lock, for messages."),
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
