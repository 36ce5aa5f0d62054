"""Shared libraries in a program's runfiles, opened on demand, not linked."""

# Their common folder in the runfiles, in which they find each other.
# backends/cuda/runtime/platform/dynamic_library.cpp looks for it.
_FOLDER = "_pteron_cuda"

def _at_run_time_impl(ctx):
    links = {"%s/%s" % (_FOLDER, file.basename): file for file in ctx.files.srcs}
    runfiles = ctx.runfiles(root_symlinks = links)
    return [DefaultInfo(
        runfiles = runfiles.merge_all([dep[DefaultInfo].default_runfiles for dep in ctx.attr.deps]),
    )]

at_run_time = rule(
    implementation = _at_run_time_impl,
    doc = "Brings libraries to who has this among its `data`.",
    attrs = {
        "deps": attr.label_list(doc = "Others of this rule."),
        "srcs": attr.label_list(allow_files = True),
    },
)
