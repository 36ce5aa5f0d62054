"""The CUDA compiler as a Bazel toolchain."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

CudaToolchainInfo = provider(
    doc = "A CUDA compiler and what goes with it.",
    fields = {
        "cudart": "CcInfo of the CUDA runtime and its headers.",
        "root": "File: a directory with bin/nvcc and nvvm/ in it.",
    },
)

CUDA_TOOLCHAIN = Label("//third_party/cuda:toolchain_type")

def _cuda_toolchain_impl(ctx):
    info = CudaToolchainInfo(
        cudart = ctx.attr.cudart[CcInfo],
        root = ctx.file.root,
    )
    return [platform_common.ToolchainInfo(cuda = info)]

cuda_toolchain = rule(
    implementation = _cuda_toolchain_impl,
    attrs = {
        "cudart": attr.label(mandatory = True, providers = [CcInfo]),
        "root": attr.label(mandatory = True, allow_single_file = True),
    },
)
