"""A model is a build rule.

    load("@pteron//exir:defs.bzl", "pteron_program", "pteron_program_test")

    pteron_program(
        name = "classifier",
        model = "classifier.py",  # def build(): return Classifier().eval(), (torch.randn(1, 784),)
        dynamic = ["x.0=1..64"],
        deps = [":layers"],
    )

    pteron_program_test(
        name = "test_classifier",
        program = ":classifier",
    )

`:classifier` is the file `classifier.pte`, for `data` of programs in C++ and Python. docs/lowering_in_a_build.md
is the page about it.
"""

load("@bazel_skylib//lib:shell.bzl", "shell")
load("@rules_python//python:defs.bzl", "py_binary")

# What lowers for a backend, and what also runs the result. For CUDA that takes minutes to compile.
_LOWERING = {
    "cpu": Label("//backends/cpu"),
    "cuda": Label("//backends/cuda:cuda_partitioner"),
    "metal": Label("//backends/apple/metal:metal_partitioner"),
}
_RUNNING = {
    "cpu": Label("//backends/cpu"),
    "cuda": Label("//backends/cuda"),
    "metal": Label("//backends/apple/metal"),
}

_ProgramInfo = provider(
    doc = "What a program was made from.",
    fields = {
        "arguments": "of the command, how the model is lowered",
        "data": "the .pte file and the .ptd file, if any",
        "model": "the model's runfiles path and its function",
        "tool": "the command with the model, and all that runs the program, among its runfiles",
    },
)

_COMPILER = attr.label(
    default = Label("//third_party/compiler"),
    allow_single_file = True,
)

_LOCAL = {"no-cache": "1", "no-remote": "1"}

def _is_for_this_machine(backends, options):
    """Whether what is made depends on this machine's processor or GPU."""
    if "native" in options.get("cpu.isa", ""):
        return True
    return "cuda" in backends and (
        "cuda.architectures" not in options or
        options.get("cuda.gemm", "cublas") != "cublas" or
        options.get("cuda.autotune", "off") != "off"
    )

def _compiler_files(ctx):
    return ctx.attr._compiler[DefaultInfo].default_runfiles.files

def _resources(_os, _inputs):
    return {"cpu": 2, "memory": 3000}

def _pteron_program_impl(ctx):
    arguments = ["--backend=" + ",".join(ctx.attr.backends)]
    arguments += ["--option=%s=%s" % option for option in ctx.attr.options.items()]
    arguments += ["--dynamic=" + dynamic for dynamic in ctx.attr.dynamic]
    model = "%s:%s" % (ctx.file.model.short_path, ctx.attr.function)
    report = ctx.actions.declare_file(ctx.label.name + ".report.txt")
    signature = []
    files = [file for file in [ctx.outputs.pte, ctx.outputs.ptd] if file]

    ctx.actions.run(
        executable = ctx.executable.tool,
        arguments = [
            "--model=" + model,
            "--compiler=" + ctx.file._compiler.path,
            "--program=" + ctx.outputs.pte.path,
            "--report=" + report.path,
            "export",
            "--",
        ] + arguments,
        inputs = depset([ctx.file._compiler], transitive = [_compiler_files(ctx)]),
        outputs = files + [report],
        # Not the user's, which would be part of the key: compilers look for programs there.
        env = {
            "PATH": "/bin:/usr/bin:/usr/local/bin",
            "PYTHONHASHSEED": "0",
        },
        execution_requirements = _LOCAL if _is_for_this_machine(ctx.attr.backends, ctx.attr.options) else {},
        mnemonic = "PteronProgram",
        progress_message = "Lowering %s for %%{label}" % model,
        resource_set = _resources,
    )
    if ctx.file.signing_key:
        signature = [ctx.actions.declare_file(ctx.outputs.pte.basename + ".intoto.json")]
        ctx.actions.run(
            executable = ctx.executable.signer,
            arguments = [
                "sign",
                ctx.outputs.pte.path,
                "--key=" + ctx.file.signing_key.path,
                "--version=%d" % ctx.attr.signing_version,
                "--output=" + signature[0].path,
            ] + (["--weights=" + ctx.outputs.ptd.path] if ctx.outputs.ptd else []),
            inputs = files + [ctx.file.signing_key],
            outputs = signature,
            # The key stays on this machine.
            execution_requirements = {"no-remote-exec": "1"},
            mnemonic = "PteronSign",
            progress_message = "Signing %{label}",
        )
    return [
        DefaultInfo(
            files = depset(files + signature),
            runfiles = ctx.runfiles(files = files + signature),
        ),
        OutputGroupInfo(report = depset([report])),
        _ProgramInfo(
            arguments = arguments,
            data = files,
            model = model,
            tool = ctx.attr.comparison,
        ),
    ]

_pteron_program = rule(
    implementation = _pteron_program_impl,
    attrs = {
        "backends": attr.string_list(),
        "comparison": attr.label(cfg = "target"),
        "dynamic": attr.string_list(),
        "function": attr.string(),
        "model": attr.label(allow_single_file = [".py"]),
        "options": attr.string_dict(),
        "pte": attr.output(mandatory = True),
        "ptd": attr.output(),
        "signer": attr.label(executable = True, cfg = "target"),
        "signing_key": attr.label(allow_single_file = True),
        "signing_version": attr.int(),
        # Of the same configuration, so that the runtime in it (with CUDA, its device code) is built
        # once: a program is made for the kind of machine that makes it.
        "tool": attr.label(executable = True, cfg = "target"),
        "_compiler": _COMPILER,
    },
    provides = [_ProgramInfo],
)

def pteron_program(
        name,
        model,
        function = "build",
        backend = "cpu",
        options = {},
        dynamic = [],
        data = [],
        deps = [],
        signing_key = None,
        signing_version = 0,
        **kwargs):
    """Lowers a model to `<name>.pte`, and compares it with eager on the model's example inputs.

    Programs for a named GPU are not compared when they are made, whether there is such a GPU or not:
    pteron_program_test compares them where there is one.

    An ordinary action: the model, its dependencies, torch, the interpreter and what identifies the
    compiler are its key, so that a shared cache serves it. What depends on this machine is never
    cached: `"cpu.isa": "native"`, CUDA without `"cuda.architectures": "sm_90"`, anything that is tuned.
    The output group `report` is what `pteron export` prints.

    Args:
        name: the target's name.
        model: a Python file.
        function: of the file, without arguments. Returns a module and its example inputs, or a dict of
            methods, or what else `pteron export` takes (tools/bazel run //tools/pteron -- export --help).
        backend: "cpu", "cuda", "metal", or a list in the order in which they choose. What the others
            leave is the CPU's.
        options: of backends by name, {"cpu.isa": "x86-64-v3"}. With
            {"cpu.save_data_externally": "true"} weights are in `<name>.ptd`, otherwise in the program.
        dynamic: dimensions that may change, "image.0=1..8".
        data: files that the model reads; it finds them beside it, where their labels say.
        deps: Python libraries that the model imports, torch's included if it names it.
        signing_key: a private key in PEM, of which `<name>.pte.intoto.json` is the signature (docs/trust.md).
            It is read on this machine, never by a remote one.
        signing_version: of the program, for those who refuse lower ones.
        **kwargs: visibility, testonly, tags and the like.
    """
    backends = [backend] if type(backend) == type("") else list(backend)
    unknown = ['"%s"' % item for item in backends if item not in _LOWERING]
    if unknown:
        fail("pteron_program %s: found backend %s; expected %s" %
             (name, ", ".join(unknown), " or ".join(['"%s"' % known for known in _LOWERING])))
    if "cpu" not in backends:
        backends.append("cpu")
    options = dict(options)
    if "cuda" in backends:  # which has another default
        options.setdefault("cuda.save_data_externally", "false")
    outside = [key for key, value in options.items() if key.endswith(".save_data_externally") and value == "true"]
    if len(outside) > 1:
        fail("pteron_program %s: found %s; expected one of them, whose weights are %s.ptd" %
             (name, " and ".join(outside), name))
    common = {
        key: kwargs[key]
        for key in ["compatible_with", "target_compatible_with", "testonly"]
        if key in kwargs
    }

    def tool(suffix, chosen):
        py_binary(
            name = name + suffix,
            srcs = [Label("//tools/pteron:rule_main.py")],
            data = [model] + data,
            main = Label("//tools/pteron:rule_main.py"),
            tags = ["manual"],
            visibility = ["//visibility:private"],
            deps = deps + [Label("//python/pteron:command")] + chosen,
            **common
        )
        return name + suffix

    lowering = [_LOWERING[item] for item in backends]
    running = [_RUNNING[item] for item in backends]
    if _is_for_this_machine(backends, options):
        lowering = running
    tool_name = tool("_lowering", lowering)
    _pteron_program(
        name = name,
        backends = backends,
        comparison = tool_name if running == lowering else tool("_comparison", running),
        dynamic = dynamic,
        function = function,
        model = model,
        options = options,
        pte = name + ".pte",
        ptd = name + ".ptd" if outside else None,
        signer = Label("//tools/pteron") if signing_key else None,
        signing_key = signing_key,
        signing_version = signing_version,
        tool = tool_name,
        **kwargs
    )

def _pteron_program_test_impl(ctx):
    program = ctx.attr.program[_ProgramInfo]
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    arguments = [
        "--model=" + program.model,
        "--compiler=" + ctx.file._compiler.short_path,
        "--program=" + program.data[0].short_path,
        "compare",
        "--",
    ] + program.arguments
    ctx.actions.write(
        script,
        "#!/bin/sh\nexec ./%s %s\n" % (
            shell.quote(program.tool[DefaultInfo].files_to_run.executable.short_path),
            " ".join([shell.quote(argument) for argument in arguments]),
        ),
        is_executable = True,
    )
    runfiles = ctx.runfiles(program.data + [ctx.file._compiler], _compiler_files(ctx))
    return [DefaultInfo(
        executable = script,
        runfiles = runfiles.merge(program.tool[DefaultInfo].default_runfiles),
    )]

_pteron_program_test = rule(
    implementation = _pteron_program_test_impl,
    attrs = {
        "program": attr.label(providers = [_ProgramInfo]),
        "_compiler": _COMPILER,
    },
    test = True,
)

def pteron_program_test(name, program, size = "medium", **kwargs):
    """Compares a program with its model in eager, on the example inputs.

    Fails with the errors by output and, where the model is to blame, the first operator that differs.
    A function that returns other weights at each call cannot be compared: seed it, or load a checkpoint.
    On a machine without the program's GPU nothing is compared; the test says so and passes.

    Args:
        name: the target's name.
        program: a pteron_program.
        size: as of any test.
        **kwargs: visibility, tags and the like.
    """
    _pteron_program_test(name = name, program = program, size = size, **kwargs)
