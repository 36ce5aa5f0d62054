"""What a bundle for a machine with a GPU is made of.

    load("//tools/gpu:defs.bzl", "gtest_binaries")

    cc_test(name = "test_scale", ...)

    gtest_binaries(name = "gtests")  # last: what stands after it is not in it
"""

load("@rules_cc//cc:defs.bzl", "CcInfo")

def gtest_binaries(name):
    """All cc_tests of the package, so that a bundle has them without a list of its own.

    Args:
        name: of the filegroup; tools/gpu knows it as `gtests`.
    """
    native.filegroup(
        name = name,
        testonly = True,
        srcs = [
            rule["name"]
            for rule in native.existing_rules().values()
            if rule["kind"] == "cc_test"
        ],
        visibility = ["//tools/gpu:__subpackages__"],
    )

def _repository_headers_impl(ctx):
    headers = [
        header
        for dep in ctx.attr.deps
        for header in dep[CcInfo].compilation_context.headers.to_list()
        if not header.short_path.startswith("../") and not header.is_directory and
           "_virtual_includes" not in header.short_path
    ]
    return [DefaultInfo(files = depset(headers))]

repository_headers = rule(
    implementation = _repository_headers_impl,
    doc = "The headers of this repository, written or generated, that compiling against `deps` takes.",
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)
