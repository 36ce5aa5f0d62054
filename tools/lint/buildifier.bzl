"""The formatter and linter of BUILD files, from the npm registry."""

load("//third_party/python:cache.bzl", "cache_directory")

_VERSION = "8.2.1"
_SHA256 = "b96ea9b13003036c801f52bee6f9b0314738f8432e5cb9d814c89f59292604ee"

_BUILD = """\
filegroup(
    name = "program",
    srcs = ["buildifier"],
    visibility = ["//visibility:public"],
)
"""

def _platform(ctx):
    os = "darwin" if ctx.os.name.startswith("mac") else "linux"
    arch = "arm64" if ctx.os.arch in ["aarch64", "arm64"] else "amd64"
    return "%s_%s" % (os, arch)

def _run(ctx, command, doing):
    result = ctx.execute(command)
    if result.return_code != 0:
        fail("%s failed: %s" % (doing, (result.stderr + result.stdout).strip()))
    return result.stdout

def _fetch(ctx, npm, final):
    """Puts the program at `final`, in one step."""
    _run(
        ctx,
        [npm, "pack", "--silent", "@bazel/buildifier@" + _VERSION],
        "Downloading @bazel/buildifier %s with npm" % _VERSION,
    )
    archive = "bazel-buildifier-%s.tgz" % _VERSION
    found = _run(ctx, ["sha256sum", archive], "Reading " + archive).split(" ")[0]
    if found != _SHA256:
        fail("%s has sha256 %s, expected %s" % (archive, found, _SHA256))
    ctx.extract(archive, "unpacked")
    ctx.delete(archive)
    program = ctx.path("unpacked/package/buildifier-" + _platform(ctx))
    staged = "%s.%s" % (final, ctx.name)
    _run(ctx, ["mkdir", "-p", str(final.dirname)], "Making " + str(final.dirname))
    _run(ctx, ["cp", str(program), staged], "Writing " + staged)
    _run(ctx, ["chmod", "755", staged], "Writing " + staged)
    _run(ctx, ["mv", staged, str(final)], "Writing " + str(final))
    ctx.delete("unpacked")

def _buildifier_impl(ctx):
    ctx.file("BUILD.bazel", _BUILD)
    final = ctx.path("%s/buildifier/%s-%s" % (cache_directory(ctx), _VERSION, _platform(ctx)))
    if not final.exists:
        npm = ctx.which("npm")
        if not npm:
            # The linter says that it leaves BUILD files out.
            ctx.file("buildifier", executable = False)
            return
        _fetch(ctx, npm, final)
    ctx.symlink(final, "buildifier")

buildifier = repository_rule(
    implementation = _buildifier_impl,
    doc = "`:program` is buildifier; it is not executable on a machine without npm.",
    environ = ["PATH"],
)
