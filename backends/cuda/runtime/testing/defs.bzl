"""Tests over CUDA.

    load("//backends/cuda/runtime/testing:defs.bzl", "cuda_test")

    cuda_test(
        name = "test_cuda_kernels",
        srcs = glob(["test_*.cpp"]),
        deps = ["//backends/cuda/runtime:memory"],
    )
"""

load("//third_party/cuda:defs.bzl", "requires_cuda")
load("//tools/build:cc.bzl", "cc_test")

def cuda_test(name, deps = [], tags = [], **kwargs):
    """A googletest with the helpers of cuda_test.h; device cases skip without a GPU.

    Sources of a folder share a target: each links the device code, and most only start to skip.

    Args:
        name: the target's name.
        deps: what is tested; the helpers, the CUDA runtime and googletest are added.
        tags: further tags; "gpu" is added.
        **kwargs: as in cc_test.
    """
    cc_test(
        name = name,
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
