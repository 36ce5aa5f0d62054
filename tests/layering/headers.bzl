"""Which headers a C++ target names: its own, and those of its direct dependencies.

    load(":headers.bzl", "named_headers")

    named_headers(name = "headers", targets = ["//runtime/core"])

writes headers.json, a list of {"target": label, "sources": [...], "headers": [...]} for the targets and
all that they depend on in this repository. Bazel's feature layering_check does the same with Clang's
module maps, which g++ does not have.
"""

load("@rules_cc//cc:defs.bzl", "CcInfo")

NamedHeadersInfo = provider("Headers of targets.", fields = {
    "headers": "list of headers that dependents may include",
    "lines": "depset of JSON objects",
})

_EDGES = ["deps", "implementation_deps", "actual"]

def _listed(value):
    return value if type(value) == "list" else [value]

def _named(file):
    """A header's path in the repository, without the folder of Bazel's links to it."""
    return file.short_path.rpartition("/pteron/")[2]

def _aspect_impl(target, ctx):
    deps = [
        dep
        for edge in _EDGES
        for dep in _listed(getattr(ctx.rule.attr, edge, []))
        if dep and NamedHeadersInfo in dep
    ]
    lines, headers = [], []
    if CcInfo in target:
        context = target[CcInfo].compilation_context
        headers = [_named(x) for x in context.direct_headers + context.direct_textual_headers]
    sources = [
        file.short_path
        for files in ["srcs", "hdrs"]
        for file in getattr(ctx.rule.files, files, [])
        if file.is_source
    ]
    if not sources and not headers:  # stands for its dependencies
        headers = [header for dep in deps for header in dep[NamedHeadersInfo].headers]
    elif not target.label.workspace_name and CcInfo in target:
        of_deps = [header for dep in deps for header in dep[NamedHeadersInfo].headers]
        lines.append(json.encode({
            "headers": {header: None for header in sources + headers + of_deps}.keys(),
            "sources": sources,
            "target": str(target.label),
        }))
    return [NamedHeadersInfo(headers = headers, lines = depset(lines, transitive = [dep[NamedHeadersInfo].lines for dep in deps]))]

_aspect = aspect(implementation = _aspect_impl, attr_aspects = _EDGES)

def _named_headers_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name + ".json")
    lines = depset(transitive = [target[NamedHeadersInfo].lines for target in ctx.attr.targets])
    ctx.actions.write(out, "[\n%s\n]\n" % ",\n".join(lines.to_list()))
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out]))]

named_headers = rule(
    implementation = _named_headers_impl,
    attrs = {"targets": attr.label_list(aspects = [_aspect])},
)
