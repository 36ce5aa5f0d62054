"""The module extension for the C++ compiler of lowering.

    compiler = use_extension("//third_party/compiler:extensions.bzl", "compiler")
    use_repo(compiler, "debian_compiler", "local_compiler")

`@local_compiler//:compiler.json` identifies the machine's; `@debian_compiler//:compiler` is GCC of
Debian's packages, fetched when it is chosen.

README.md says what the file is for.
"""

load("//third_party/debian:packages.bzl", "debian_packages")

_PROGRAMS = ["cc1plus", "collect2", "as", "ld"]

# Headers whose macros identify library versions.
_MACROS = """
for header in version stdlib.h omp.h; do echo "#include <$header>"; done |
  "$0" -fopenmp -x c++ -std=c++20 -dM -E - | sort | sha256sum
"""

_MISSING = """\
lowering needs a C++20 compiler, and none of these is on the path: %s.
try:  installing one (for example the package g++), or --repo_env=CXX=/path/to/g++"""

def _run(repository_ctx, command):
    result = repository_ctx.execute(command, environment = {"LC_ALL": "C"})
    return result.stdout.strip() if result.return_code == 0 else None

def _sha256(repository_ctx, path):
    repository_ctx.watch(path)
    found = _run(repository_ctx, ["sha256sum", "-b", path])
    return found.split(" ")[0].lstrip("\\") if found else "unreadable"

def _facts(repository_ctx):
    asked = repository_ctx.getenv("CXX")
    names = [asked] if asked else ["g++", "c++", "clang++"]
    paths = [repository_ctx.which(name) for name in names]
    paths = [path for path in paths if path]
    if not paths:
        return {"missing": _MISSING % ", ".join(names)}
    command = str(paths[0])
    programs = {}
    for name in _PROGRAMS:
        path = _run(repository_ctx, [command, "-print-prog-name=" + name])
        found = repository_ctx.which(path) if path and "/" not in path else path
        if found:
            programs[name] = _sha256(repository_ctx, str(found))
    return {
        "command": command,
        "macros": (_run(repository_ctx, ["sh", "-c", _MACROS, command]) or "").split(" ")[0],
        "programs": programs | {"driver": _sha256(repository_ctx, command)},
        "version": (_run(repository_ctx, [command, "--version"]) or "").split("\n")[0],
    }

def _local_compiler_impl(repository_ctx):
    repository_ctx.file("compiler.json", json.encode_indent(_facts(repository_ctx)) + "\n")
    repository_ctx.file("BUILD.bazel", """exports_files(["compiler.json"])\n""")

_local_compiler = repository_rule(
    implementation = _local_compiler_impl,
    configure = True,
    local = True,
)

# `as` and `ld` get the names by which GCC looks for them. Not for C++: 100 MB.
_ARRANGE = """
rm usr/bin/*lto-dump* usr/lib/gcc/x86_64-linux-gnu/12/cc1 usr/lib/gcc/x86_64-linux-gnu/12/lto1
mkdir bin
for name in as ld; do mv "$(readlink -f usr/bin/x86_64-linux-gnu-$name)" bin/$name; done
"""

_GXX = """\
#!/bin/sh
d=${0%/*}
exec "$d/usr/bin/x86_64-linux-gnu-g++-12" --sysroot="$d" -B"$d/bin/" "$@"
"""

def _compiler_impl(_module_ctx):
    _local_compiler(name = "local_compiler")
    debian_packages(
        name = "debian_compiler",
        arrange = _ARRANGE,
        build_file = Label("//third_party/compiler:debian.BUILD"),
        packages = Label("//third_party/compiler:debian.json"),
        programs = [
            "bin/as",
            "bin/ld",
            "usr/bin/x86_64-linux-gnu-g++-12",
            "usr/lib/gcc/x86_64-linux-gnu/12/cc1plus",
            "usr/lib/gcc/x86_64-linux-gnu/12/collect2",
        ],
        texts = {
            "compiler.json": json.encode({"command": "root/g++"}),
            "root/g++": _GXX,
        },
    )

compiler = module_extension(implementation = _compiler_impl)
