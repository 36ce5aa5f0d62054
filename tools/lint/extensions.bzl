"""Repositories that the linter and the layering test look at; dependents never see them."""

load(":buildifier.bzl", "buildifier")
load(":source_tree.bzl", "source_tree")

def _lint_impl(_ctx):
    buildifier(name = "buildifier")
    source_tree(name = "source_tree")

lint = module_extension(implementation = _lint_impl)
