"""Shims under torch's own names, for code that is linked against those.

    load("//backends/aoti/shims:torch_names.bzl", "torch_named_shims")

    torch_named_shims(
        name = "torch_named_shims",
        shims = "//backends/cpu/runtime/shims:shims.inc",
        deps = ["//backends/cpu/runtime:runtime_shims"],
    )
"""

load("//tools/build:cc.bzl", "cc_library")

def torch_named_shims(name, shims, deps, **kwargs):
    """A library that exports each `aoti_torch_...` of a list of shims by that name.

    Whoever links it exports the names, from a program too, beside the private ones. Names in the
    list that are not torch's (of the CUDA runtime and the like) stay private.

    Args:
        name: the target's name.
        shims: the list, a `shims.inc`.
        deps: libraries that define the shims under their private names.
        **kwargs: further attributes of the library (target_compatible_with, ...).
    """
    native.genrule(
        name = name + "_source",
        srcs = [shims],
        outs = [name + ".cpp"],
        cmd = "(echo '#include \"pteron/backends/aoti/shims/torch_name.h\"' && " +
              "sed -n 's/^AOTI_SHIM(aoti_torch_\\([A-Za-z0-9_]*\\),.*/PTERON_TORCH_NAME(\\1)/p' $<) > $@",
        visibility = ["//visibility:private"],
    )
    cc_library(
        name = name,
        srcs = [name + ".cpp"],
        deps = deps + [
            Label("//backends/aoti/shims:torch_name"),
            Label("//backends/aoti/shims:torch_names_list"),
        ],
        alwayslink = True,
        **kwargs
    )
