"""A stub of the buildozer module, whose repository Bazel's own module requires."""

def _empty_repository_impl(ctx):
    ctx.file("BUILD.bazel")

_empty_repository = repository_rule(implementation = _empty_repository_impl)

def _buildozer_binary_impl(_ctx):
    _empty_repository(name = "buildozer_binary")

buildozer_binary = module_extension(implementation = _buildozer_binary_impl)
