"""Fuzz targets: libFuzzer, with AddressSanitizer and UndefinedBehaviorSanitizer.

    load("//tools/build:fuzz.bzl", "fuzz_test")

    fuzz_test(
        name = "fuzz_envelope",
        srcs = ["fuzz_envelope.cpp"],  # defines LLVMFuzzerTestOneInput
        corpus = glob(["corpus/*"]),
        deps = ["//runtime/trust"],
    )

`tools/bazel test` runs it for 60 seconds with a new seed, which it prints; a finding is in the test's outputs
(bazel-testlogs/.../test.outputs). For long, and to see a finding again:

    tools/bazel run //runtime/trust/tests:fuzz_envelope -- -max_total_time=3600 $HOME/corpus
    tools/bazel run //runtime/trust/tests:fuzz_envelope -- $PWD/crash-...
"""

load("@rules_python//python:defs.bzl", "py_test")
load(":cc.bzl", "cc_binary")

# libFuzzer's. Its entropic schedule is slow where an execution covers much.
_OPTIONS = [
    "-entropic=0",
    "-max_total_time=60",
    "-print_final_stats=1",
    "-timeout=20",
]

# What is fuzzed, and all that it links, is compiled again, once for all targets.
def _instrumented_impl(settings, _attr):
    return {
        "//command_line_option:copt": settings["//command_line_option:copt"] + [
            "-O1",
            "-g1",
            "-fno-sanitize-recover=all",
            # A byte of a bool tensor can be any, which is not an error of what reads it.
            "-fno-sanitize=bool",
            "-fsanitize-coverage=trace-pc,trace-cmp",
        ],
        "//command_line_option:features": settings["//command_line_option:features"] + ["asan", "ubsan"],
        "//command_line_option:linkopt": settings["//command_line_option:linkopt"] + [
            "-static-libasan",
            "-static-libubsan",
            "-Wl,--wrap=__sanitizer_cov_trace_pc",
        ],
        "//command_line_option:strip": "never",
    }

_SETTINGS = ["//command_line_option:" + name for name in ("copt", "features", "linkopt")]

_instrumented = transition(
    implementation = _instrumented_impl,
    inputs = _SETTINGS,
    outputs = _SETTINGS + ["//command_line_option:strip"],
)

_SCRIPT = """\
#!/bin/sh
export ASAN_OPTIONS="allocator_may_return_null=1:malloc_context_size=8:max_allocation_size_mb=64:$ASAN_OPTIONS"
exec ./{binary} {options} \\
  -artifact_prefix="${{TEST_UNDECLARED_OUTPUTS_DIR:-${{BUILD_WORKING_DIRECTORY:-.}}}}/" "$@"
"""

def _fuzz_test_impl(ctx):
    binary = ctx.attr.binary[0]
    executable = binary[DefaultInfo].files_to_run.executable
    options = _OPTIONS + ctx.attr.options
    if ctx.files.corpus:
        options.append("-seed_inputs=" + ",".join([file.short_path for file in ctx.files.corpus]))
    if ctx.file.dictionary:
        options.append("-dict=" + ctx.file.dictionary.short_path)
    script = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(
        script,
        _SCRIPT.format(binary = executable.short_path, options = " ".join(options)),
        is_executable = True,
    )
    files = ctx.runfiles([executable] + ctx.files.corpus + ctx.files.data + ctx.files.dictionary)
    return DefaultInfo(
        executable = script,
        runfiles = files.merge(binary[DefaultInfo].default_runfiles),
    )

_fuzz_test = rule(
    implementation = _fuzz_test_impl,
    attrs = {
        "binary": attr.label(cfg = _instrumented, executable = True, mandatory = True),
        "corpus": attr.label_list(allow_files = True),
        "data": attr.label_list(allow_files = True),
        "dictionary": attr.label(allow_single_file = True),
        "options": attr.string_list(),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
    test = True,
)

def py_fuzz_test(name, srcs, deps = [], **kwargs):
    """A Python program that ends with `atheris.Setup(sys.argv, ...)` and `atheris.Fuzz()` as a test.

    Args:
        name: the target's name.
        srcs: the program, first, and its modules.
        deps: what they import besides atheris.
        **kwargs: further attributes of the py_test.
    """
    py_test(
        name = name,
        size = "large",
        timeout = "moderate",
        srcs = srcs,
        args = _OPTIONS,
        main = srcs[0],
        deps = deps + [Label("@atheris//atheris")],
        **kwargs
    )

def fuzz_test(name, srcs, corpus = [], data = [], dictionary = None, deps = [], options = [], **kwargs):
    """A fuzz target as a test.

    Args:
        name: the target's name.
        srcs: C++ files, one of which defines LLVMFuzzerTestOneInput.
        corpus: files to begin with.
        data: files that the program reads, from the root of its runfiles.
        dictionary: file of words that inputs have (https://llvm.org/docs/LibFuzzer.html#dictionaries).
        deps: C++ libraries.
        options: of libFuzzer.
        **kwargs: further attributes of the test.
    """
    cc_binary(
        name = name + "_binary",
        testonly = True,
        srcs = srcs,
        # Without the transition there is nothing to link with.
        tags = ["manual"],
        visibility = ["//visibility:private"],
        deps = deps + [Label("//tools/build:fuzz_main")],
    )
    _fuzz_test(
        name = name,
        size = "large",
        timeout = "moderate",
        binary = name + "_binary",
        corpus = corpus,
        data = data,
        dictionary = dictionary,
        options = options,
        **kwargs
    )
