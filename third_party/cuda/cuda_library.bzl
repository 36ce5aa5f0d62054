"""The rule behind cuda_library; load the macro of defs.bzl."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":architectures.bzl", "CudaArchitecturesInfo")
load(":toolchain.bzl", "CUDA_TOOLCHAIN")

_SOURCES = [".cu"]
_HEADERS = [".h", ".hpp", ".cuh", ".inc", ".inl"]

_MODES = {
    "dbg": ["-g", "-lineinfo"],
    "fastbuild": [],
    "opt": ["-O3", "-DNDEBUG"],
}

def _join(*parts):
    return "/".join([part for part in parts if part]) or "."

def _prefixed(ctx, headers):
    """Links by which headers are found under the target's include_prefix."""
    links = []
    for header in headers:
        name = header.short_path.removeprefix("../%s/" % header.owner.repo_name)
        name = name.removeprefix(ctx.label.package + "/")
        link = ctx.actions.declare_file(_join(_prefixed_folder(ctx), ctx.attr.include_prefix, name))
        ctx.actions.symlink(output = link, target_file = header)
        links.append(link)
    return links

def _prefixed_folder(ctx):
    return "_virtual_includes/" + ctx.label.name

def _compilation_context(ctx, headers):
    """Headers visible to a source of this target, relative to the repository root."""
    root = ctx.label.workspace_root
    generated = ctx.bin_dir.path
    package = _join(root, ctx.label.package)
    includes = [_join(package, directory) for directory in ctx.attr.includes]
    includes += [_join(generated, directory) for directory in includes]
    if ctx.attr.include_prefix:
        includes.append(_join(generated, package, _prefixed_folder(ctx)))
    return cc_common.create_compilation_context(
        defines = depset(ctx.attr.defines),
        headers = depset(headers),
        includes = depset(includes),
        quote_includes = depset([_join(root), _join(generated, root)]),
    )

def _nvcc_arguments(ctx, context, source, object):
    """The command line that compiles one source."""
    cc_toolchain = find_cc_toolchain(ctx)
    arguments = ctx.actions.args()
    arguments.add("-c", source)
    arguments.add("-o", object)
    arguments.add("-ccbin", cc_toolchain.compiler_executable)
    arguments.add("-std=c++17")
    arguments.add_all(ctx.attr._architectures[CudaArchitecturesInfo].gencode)
    arguments.add("-Xcompiler=-fPIC")
    arguments.add_all(_MODES[ctx.var["COMPILATION_MODE"]])

    # The same object wherever and whenever it is compiled: without these, nvcc derives symbols
    # from the absolute path of the source, and file names from the number of its process.
    arguments.add("-Xcudafe=--orig_src_path_name," + source.path)
    arguments.add("--frandom-seed=" + source.path)
    arguments.add("--objdir-as-tempdir")

    arguments.add_all(context.defines, before_each = "-D")
    arguments.add_all(ctx.attr.local_defines, before_each = "-D")
    arguments.add_all(context.quote_includes, format_each = "-Xcompiler=-iquote,%s")
    arguments.add_all(context.includes, before_each = "-I")
    arguments.add_all(context.system_includes, before_each = "-isystem")
    arguments.add_all(ctx.attr.copts)
    return arguments

def _compile(ctx, context, private_headers, source):
    """Declares the action that compiles one source, and returns its object file."""
    cc_toolchain = find_cc_toolchain(ctx)
    cuda = ctx.toolchains[CUDA_TOOLCHAIN].cuda
    stem = source.short_path.removeprefix("../")
    if source.short_path.startswith(ctx.label.package + "/"):
        stem = source.short_path.removeprefix(ctx.label.package + "/")
    object = ctx.actions.declare_file("_objs/%s/%s.pic.o" % (ctx.label.name, stem))
    ctx.actions.run(
        arguments = [_nvcc_arguments(ctx, context, source, object)],
        # Not the caller's environment; the host compiler needs its assembler.
        env = {
            "PATH": ":".join([cc_toolchain.compiler_executable.rpartition("/")[0], "/usr/bin", "/bin"]),
            "PWD": "/proc/self/cwd",
        },
        executable = cuda.root.path + "/bin/nvcc",
        inputs = depset(
            [source, cuda.root] + private_headers,
            transitive = [context.headers, cc_toolchain.all_files],
        ),
        mnemonic = "CudaCompile",
        outputs = [object],
        progress_message = "Compiling %{input}",
        toolchain = CUDA_TOOLCHAIN,
    )
    return object

def _link(ctx, objects, linking_contexts):
    """Puts the objects into a static library, as cc_library does with linkstatic."""
    cc_toolchain = find_cc_toolchain(ctx)
    feature_configuration = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = cc_toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    context, _ = cc_common.create_linking_context_from_compilation_outputs(
        name = ctx.label.name,
        actions = ctx.actions,
        alwayslink = ctx.attr.alwayslink,
        cc_toolchain = cc_toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = depset(objects),
            pic_objects = depset(objects),
        ),
        disallow_dynamic_library = True,
        feature_configuration = feature_configuration,
        linking_contexts = linking_contexts,
        user_link_flags = ctx.attr.linkopts,
    )
    return context

def _is_source(file):
    return "." + file.extension in _SOURCES

def _cuda_library_impl(ctx):
    deps = [dep[CcInfo] for dep in ctx.attr.deps]
    headers = list(ctx.files.hdrs)
    private_headers = [file for file in ctx.files.srcs if not _is_source(file)]
    if ctx.attr.include_prefix:
        headers += _prefixed(ctx, ctx.files.hdrs)
        private_headers += _prefixed(ctx, private_headers)
    own = _compilation_context(ctx, headers)
    context = cc_common.merge_compilation_contexts(
        compilation_contexts = [own] + [dep.compilation_context for dep in deps],
    )
    objects = [
        _compile(ctx, context, private_headers, source)
        for source in ctx.files.srcs
        if _is_source(source)
    ]
    linking_context = _link(ctx, objects, [dep.linking_context for dep in deps])
    runfiles = ctx.runfiles(files = ctx.files.data).merge_all(
        [dep[DefaultInfo].default_runfiles for dep in ctx.attr.deps + ctx.attr.data],
    )
    return [
        DefaultInfo(files = depset(objects), runfiles = runfiles),
        CcInfo(compilation_context = context, linking_context = linking_context),
        OutputGroupInfo(compilation_outputs = depset(objects)),
        coverage_common.instrumented_files_info(
            ctx,
            dependency_attributes = ["deps"],
            source_attributes = ["srcs", "hdrs"],
        ),
    ]

cuda_library_rule = rule(
    implementation = _cuda_library_impl,
    attrs = {
        "alwayslink": attr.bool(),
        "copts": attr.string_list(),
        "data": attr.label_list(allow_files = True),
        "defines": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = _HEADERS),
        "include_prefix": attr.string(),
        "includes": attr.string_list(),
        "linkopts": attr.string_list(),
        "local_defines": attr.string_list(),
        "srcs": attr.label_list(allow_files = _SOURCES + _HEADERS),
        "_architectures": attr.label(default = Label("//third_party/cuda:architectures")),
    },
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = [CUDA_TOOLCHAIN] + use_cc_toolchain(),
)
