"""CUDA libraries.

    load("@pteron//third_party/cuda:defs.bzl", "cuda_library", "requires_cuda")

    cuda_library(
        name = "scale",
        srcs = ["scale.cu"],
        hdrs = ["scale.h"],
    )

    cc_test(
        name = "test_scale",
        srcs = ["test_scale.cpp"],
        target_compatible_with = requires_cuda(),
        deps = [":scale"],
    )
"""

load("//tools/build:names.bzl", "include_prefix")
load(":cuda_library.bzl", "cuda_library_rule")

def requires_cuda():
    """The target_compatible_with of targets that need CUDA.

    They are incompatible, not broken, with --@pteron//third_party/cuda:enabled=false and on
    platforms for which there is no toolkit: `//...` skips them.

    Returns:
        a value for target_compatible_with.
    """
    return select({
        Label("//third_party/cuda:is_enabled"): [
            Label("@platforms//cpu:x86_64"),
            Label("@platforms//os:linux"),
        ],
        "//conditions:default": [Label("@platforms//:incompatible")],
    })

def cuda_library(name, deps = [], target_compatible_with = [], **kwargs):
    """A C++ library whose sources may hold device code; compiled by nvcc.

    A drop-in for cc_library: it gives CcInfo, so cc_library, cc_test, cc_binary and
    cc_shared_library depend on it. The CUDA runtime (static) and its headers come with it.

    Args:
        name: the target's name.
        deps: C++ and CUDA libraries; the CUDA runtime is added.
        target_compatible_with: further constraints; requires_cuda() is added.
        **kwargs: srcs (.cu, and private headers), hdrs, copts (options of nvcc; those for
            the host compiler as "-Xcompiler=..."), defines, local_defines, includes,
            include_prefix, linkopts, alwayslink and data, with the meaning they have in cc_library
            (private headers have the prefix, too); common attributes.
    """
    cudart = Label("//third_party/cuda:cudart")
    if type(deps) == "list":
        deps = [dep for dep in deps if native.package_relative_label(dep) != cudart]
    cuda_library_rule(
        name = name,
        # In the deps, where cc_shared_library searches.
        deps = deps + [cudart],
        include_prefix = kwargs.pop("include_prefix", include_prefix()),
        target_compatible_with = requires_cuda() + target_compatible_with,
        **kwargs
    )
