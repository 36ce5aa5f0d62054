"""A C++ header, compiled once for all sources that include it first. See cc.bzl."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain", "use_cpp_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

def _precompiled_header_impl(ctx):
    # GCC takes `X.h.gch` for `X.h` where both lie in one folder.
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.symlink(output = header, target_file = ctx.file.hdr)
    toolchain = find_cpp_toolchain(ctx)
    if toolchain.compiler != "gcc" or not ctx.attr.enabled[BuildSettingInfo].value:
        return _providers(header)

    compiled = ctx.actions.declare_file(header.basename + ".gch")
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = header.path,
        output_file = compiled.path,
        use_pic = True,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts +
                             ctx.attr.copts + ["-x", "c++-header"],
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
        ),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        inputs = depset([header, ctx.file.hdr], transitive = [toolchain.all_files]),
        outputs = [compiled],
        mnemonic = "CppPrecompileHeader",
        progress_message = "Precompiling " + ctx.file.hdr.short_path,
    )
    return _providers(header, [compiled])

def _providers(header, compiled = []):
    context = cc_common.create_compilation_context(headers = depset([header] + compiled))
    return [DefaultInfo(files = depset([header])), CcInfo(compilation_context = context)]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    doc = "NAME.h for `-include`, and beside it what GCC reads instead if its options are the same.",
    attrs = {
        "copts": attr.string_list(doc = "Compiler options, beside the build's."),
        "enabled": attr.label(doc = "A bool_flag; without it there is only the text."),
        "hdr": attr.label(
            doc = "The text. Of another name: the source tree has no precompiled form.",
            allow_single_file = [".h"],
            mandatory = True,
        ),
    },
    fragments = ["cpp"],
    toolchains = use_cpp_toolchain(),
)
