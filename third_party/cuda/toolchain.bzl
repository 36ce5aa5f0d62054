"""The CUDA compiler as a Bazel toolchain."""

CudaToolchainInfo = provider(
    doc = "A CUDA compiler.",
    fields = {
        "root": "File: a directory with bin/nvcc and nvvm/ in it.",
    },
)

CUDA_TOOLCHAIN = Label("//third_party/cuda:toolchain_type")

def _cuda_toolchain_impl(ctx):
    return [platform_common.ToolchainInfo(cuda = CudaToolchainInfo(root = ctx.file.root))]

cuda_toolchain = rule(
    implementation = _cuda_toolchain_impl,
    attrs = {
        "root": attr.label(mandatory = True, allow_single_file = True),
    },
)
