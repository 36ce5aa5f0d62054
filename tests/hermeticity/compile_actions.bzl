"""The compile actions of a cuda_library, as data of a test."""

_ActionsInfo = provider(
    doc = "The actions of a target that run nvcc.",
    fields = {"actions": "List of Action."},
)

def _nvcc_actions_impl(target, _ctx):
    return [_ActionsInfo(actions = [a for a in target.actions if a.mnemonic == "CudaCompile"])]

_nvcc_actions = aspect(implementation = _nvcc_actions_impl)

def _compile_actions_impl(ctx):
    actions = ctx.attr.library[_ActionsInfo].actions
    files = depset(
        ctx.attr.library[OutputGroupInfo].compilation_outputs.to_list(),
        transitive = [action.inputs for action in actions],
    )
    output = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(output, json.encode_indent({
        "actions": [
            {
                "argv": action.argv,
                "env": action.env,
                "inputs": [file.path for file in action.inputs.to_list()],
                "outputs": [file.path for file in action.outputs.to_list()],
            }
            for action in actions
        ],
        # Where a test finds a file, below its runfiles.
        "runfiles": {
            file.path: file.short_path
            for file in files.to_list()
        },
    }))
    return [DefaultInfo(
        files = depset([output]),
        runfiles = ctx.runfiles(files = [output], transitive_files = files),
    )]

compile_actions = rule(
    implementation = _compile_actions_impl,
    doc = "Writes NAME.json with the nvcc actions of a library; its runfiles have all their inputs " +
          "and the objects that Bazel made.",
    attrs = {"library": attr.label(aspects = [_nvcc_actions], mandatory = True)},
)
