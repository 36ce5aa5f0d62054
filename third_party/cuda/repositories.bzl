"""The repository rule for NVIDIA's wheels, and the BUILD files of what is made from them."""

load("//third_party/python:wheels.bzl", "install_wheels")

def _nvidia_wheels_impl(repository_ctx):
    attr = repository_ctx.attr
    wheels = [json.decode(wheel) for wheel in attr.wheels]
    installed = install_wheels(repository_ctx, wheels, attr.lock)
    for link, path in attr.links.items():
        repository_ctx.symlink(installed.get_child(path), link)
    repository_ctx.file("BUILD.bazel", attr.build)

nvidia_wheels = repository_rule(
    implementation = _nvidia_wheels_impl,
    doc = "Wheels installed together when a target of the repository is built.",
    attrs = {
        "build": attr.string(doc = "Text of the BUILD file.", mandatory = True),
        "links": attr.string_dict(doc = "Path in the repository to path in the wheels."),
        "lock": attr.string(doc = "Path of the lock, for messages."),
        "wheels": attr.string_list(doc = "Entries of the lock, as JSON."),
    },
)

# The compiler and the headers are two ways to the same files: an action can't have a directory and
# a part of it.
TOOLKIT_LINKS = {
    "cuda/bin": "nvidia/cu13/bin",
    "cuda/nvvm": "nvidia/cu13/nvvm",
    "include": "nvidia/cu13/include",
    "lib/libcudart_static.a": "nvidia/cu13/lib/libcudart_static.a",
    "site-packages/nvidia/cu13/bin": "nvidia/cu13/bin",
    "site-packages/nvidia/cu13/include": "nvidia/cu13/include",
}

TOOLKIT_BUILD = """\
load("@pteron//third_party/cuda:toolchain.bzl", "cuda_toolchain")
load("@rules_cc//cc:defs.bzl", "cc_library")
load("@rules_python//python:defs.bzl", "py_library")

package(default_visibility = ["//visibility:public"])

exports_files(["cuda"])

py_library(
    name = "python",
    data = [
        "site-packages/nvidia/cu13/bin",
        "site-packages/nvidia/cu13/include",
    ],
    imports = ["site-packages"],
)

cc_library(
    name = "headers",
    hdrs = ["include"],
    includes = [
        "include",
        "include/cccl",
    ],
)

# Its symbols are hidden: each shared library, and a program that calls it, has a copy of its own.
# The copies share the devices' primary contexts, so streams and pointers go from one to the other.
cc_library(
    name = "cudart",
    srcs = ["lib/libcudart_static.a"],
    linkopts = [
        "-ldl",
        "-lpthread",
        "-lrt",
    ],
    tags = ["LINKABLE_MORE_THAN_ONCE"],
    deps = [":headers"],
)

cuda_toolchain(
    name = "compiler",
    root = "cuda",
)
"""

# A BUILD file of headers that need those of another.
_HEADERS = """\
load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = ["include"],
    includes = ["include"],
    deps = ["%s"],
)
"""

CUBLAS_LINKS = {
    "include": "nvidia/cu13/include",
    "lib/libcublas.so.13": "nvidia/cu13/lib/libcublas.so.13",
    "lib/libcublasLt.so.13": "nvidia/cu13/lib/libcublasLt.so.13",
}

CUBLAS_BUILD = _HEADERS % "@cuda_toolkit//:headers" + """
cc_library(
    name = "cublas_lt",
    srcs = ["lib/libcublasLt.so.13"],
    hdrs = ["include"],
    includes = ["include"],
    deps = ["@cuda_toolkit//:headers"],
)

cc_library(
    name = "cublas",
    srcs = ["lib/libcublas.so.13"],
    deps = [":cublas_lt"],
)

filegroup(
    name = "libraries",
    srcs = [
        "lib/libcublas.so.13",
        "lib/libcublasLt.so.13",
    ],
)
"""

CUDNN_LINKS = {
    "include": "nvidia/cudnn/include",
    "lib": "nvidia/cudnn/lib",
}

CUDNN_BUILD = _HEADERS % "@cuda_toolkit//:headers" + """
filegroup(
    name = "libraries",
    srcs = glob(["lib/libcudnn*.so.9"]),
)
"""

CUDNN_FRONTEND_LINKS = {
    "include": "include",
}

CUDNN_FRONTEND_BUILD = _HEADERS % "@cuda_cudnn//:headers"

NVRTC_LINKS = {
    "lib": "nvidia/cu13/lib",
}

NVRTC_BUILD = """\
filegroup(
    name = "libraries",
    srcs = [
        "lib/libnvrtc-builtins.so.13.0",
        "lib/libnvrtc.so.13",
    ],
    visibility = ["//visibility:public"],
)
"""
