"""Tests of a backend's targets: their dependencies and what `bazel build` builds."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//tools/build:names.bzl", "PYTHON_ROOT")

def _impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    built = [file.short_path for file in target[DefaultInfo].files.to_list()]
    root = "%s/pteron/" % PYTHON_ROOT
    brought = [
        link.path.removeprefix(root)
        for link in target[DefaultInfo].default_runfiles.root_symlinks.to_list()
    ]
    for module in ctx.attr.modules:
        asserts.true(env, module in brought, "does not bring %s" % module)
    library = ctx.attr.library
    for found, how in [(brought, "brought"), (built, "built")]:
        asserts.equals(env, ctx.attr.has_library, library in found, "%s is %s" % (library, how))
    return analysistest.end(env)

_targets_test = analysistest.make(_impl, attrs = {
    "has_library": attr.bool(),
    "library": attr.string(),
    "modules": attr.string_list(),
})

def backend_targets_test(name, package, target_compatible_with = []):
    """A test per target of a backend: the complete one, and its lowering half.

    Args:
        name: of the tests.
        package: folder of the backend.
        target_compatible_with: of the tests.
    """
    device = package.split("/")[-1]
    backend = "%s/%s_backend.py" % (package, device)
    partitioner = "%s/%s_partitioner.py" % (package, device)
    cases = {
        device: [backend, partitioner],
        device + "_backend": [backend, partitioner],
        device + "_lowering": [backend],
        device + "_partitioner": [backend, partitioner],
    }
    for target, modules in cases.items():
        _targets_test(
            name = "%s_%s" % (name, target),
            has_library = target in [device, device + "_backend"],
            library = "%s/runtime/lib%s_backend.so" % (package, device),
            modules = modules,
            target_compatible_with = target_compatible_with,
            target_under_test = "//%s:%s" % (package, target),
        )
