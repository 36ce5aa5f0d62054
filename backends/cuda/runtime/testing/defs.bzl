"""Tests over CUDA.

    load("//backends/cuda/runtime/testing:defs.bzl", "cuda_shim_test", "cuda_test")

    cuda_shim_test(name = "test_products")
    cuda_test(
        name = "test_caching_pool",
        deps = ["//backends/cuda/runtime:memory"],
    )
"""

load("//third_party/cuda:defs.bzl", "requires_cuda")
load("//tools/build:cc.bzl", "cc_test")

def cuda_test(name, deps = [], tags = [], **kwargs):
    """A googletest of `name`.cpp with the helpers of cuda_test.h; device cases skip without a GPU.

    Args:
        name: the target's name, and its source file's.
        deps: what is tested; the helpers, the CUDA runtime and googletest are added.
        tags: further tags; "gpu" is added.
        **kwargs: as in cc_test.
    """
    cc_test(
        name = name,
        srcs = [name + ".cpp"],
        linkstatic = True,
        tags = ["gpu"] + tags,
        target_compatible_with = requires_cuda(),
        deps = deps + [
            "//backends/aoti/slim/core:slimtensor",
            "//backends/cuda/runtime/testing:cuda_test",
            "//runtime/core",
            "//third_party/cuda:cudart",
            "@googletest//:gtest_main",
        ],
        **kwargs
    )

def cuda_shim_test(name, deps = [], **kwargs):
    """A cuda_test of shims, called by the names that models call them by.

    Args:
        name: the target's name, and its source file's.
        deps: libraries besides the shims.
        **kwargs: as in cuda_test.
    """
    cuda_test(
        name = name,
        deps = deps + [
            "//backends/aoti/shims:boundary",
            "//backends/aoti/slim/cuda:guard",
            "//backends/cuda/runtime:errors",
            "//backends/cuda/runtime:runtime_shims",
            "//backends/cuda/runtime/shims",
        ],
        **kwargs
    )
