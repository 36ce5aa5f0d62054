"""C++ and Python code from FlatBuffers schemas, generated at build time by one flatc.

    load("//third_party/flatbuffers:defs.bzl", "flatbuffers_cc_library", "flatbuffers_py_library")

    flatbuffers_cc_library(name = "program_fbs", srcs = ["program.fbs"])
    flatbuffers_py_library(name = "program_py", srcs = ["program.fbs"])

In the package `runtime/schema` the first gives `#include "pteron/runtime/schema/program_generated.h"`, the
second `from pteron.runtime.schema import program_generated`. A schema stands alone: it includes no other.
"""

load("@rules_cc//cc:defs.bzl", "cc_library")
load("//tools/build:names.bzl", "include_prefix")
load("//tools/build:py.bzl", "py_library")

# Per language: flatc's options and the output extension.
_LANGUAGES = {
    "cpp": (["--cpp", "--cpp-std", "c++17"], ".h"),
    "python": (["--python", "--gen-object-api", "--gen-onefile"], ".py"),
}

def _flatbuffers_code_impl(ctx):
    schema = ctx.file.src
    options, extension = _LANGUAGES[ctx.attr.language]
    stem = schema.basename.removesuffix(".fbs")
    output = ctx.actions.declare_file(stem + "_generated" + extension)

    arguments = ctx.actions.args()
    arguments.add_all(options)
    arguments.add("-o", output.dirname)
    arguments.add(schema)

    ctx.actions.run(
        executable = ctx.executable._flatc,
        arguments = [arguments],
        inputs = [schema],
        outputs = [output],
        mnemonic = "Flatc",
        progress_message = "Generating %{output}",
    )
    return [DefaultInfo(files = depset([output]))]

_flatbuffers_code = rule(
    implementation = _flatbuffers_code_impl,
    doc = "Generates `<stem>_generated.<extension>` for one schema.",
    attrs = {
        "src": attr.label(allow_single_file = [".fbs"], mandatory = True),
        "language": attr.string(values = _LANGUAGES.keys(), mandatory = True),
        "_flatc": attr.label(
            default = Label("//third_party/flatbuffers:flatc"),
            executable = True,
            cfg = "exec",
        ),
    },
)

def _generate(name, srcs, language):
    if len(srcs) != 1:
        fail("{}: srcs takes exactly one .fbs file, found {}".format(name, len(srcs)))
    _flatbuffers_code(
        name = name,
        src = srcs[0],
        language = language,
        visibility = ["//visibility:private"],
    )
    return ":" + name

def flatbuffers_cc_library(name, srcs, deps = [], **kwargs):
    """A C++ library with the header `<stem>_generated.h` of one schema.

    Args:
        name: the target's name.
        srcs: a list of exactly one .fbs file.
        deps: further C++ libraries.
        **kwargs: further attributes of the cc_library.
    """
    code = _generate(name + "_code", srcs, "cpp")
    cc_library(
        name = name,
        hdrs = [code],
        include_prefix = include_prefix(),
        deps = deps + [Label("//third_party/flatbuffers:runtime")],
        **kwargs
    )

def flatbuffers_py_library(name, srcs, deps = [], **kwargs):
    """A Python library with the module `<stem>_generated` of one schema.

    Args:
        name: the target's name.
        srcs: a list of exactly one .fbs file.
        deps: further Python libraries.
        **kwargs: further attributes of the py_library.
    """
    code = _generate(name + "_code", srcs, "python")
    py_library(
        name = name,
        srcs = [code],
        deps = deps + [Label("@pypi//flatbuffers")],
        **kwargs
    )
