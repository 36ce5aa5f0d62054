"""The module extension for the C++ compiler of lowering.

    compiler = use_extension("//third_party/compiler:extensions.bzl", "compiler")
    use_repo(compiler, "debian_compiler", "local_compiler")

`@local_compiler//:compiler.json` identifies the machine's; `@debian_compiler//:compiler` is GCC of
Debian's packages, fetched when it is chosen.

README.md says what the file is for.
"""

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

_WRAPPER = """\
#!/bin/sh
d=${0%/*}
export LD_LIBRARY_PATH="$d/usr/lib/x86_64-linux-gnu"
exec "$d/usr/bin/x86_64-linux-gnu-g++-12" --sysroot="$d" -B"$d/bin/" "$@"
"""

# Beside it: the libraries of its programs but glibc, which is the machine's. Not for C++: 100 MB, and
# links to packages that are not there.
_ARRANGE = """
mv lib/x86_64-linux-gnu/libz.so.* usr/lib/x86_64-linux-gnu
rm -r usr/share usr/bin/*lto-dump* usr/lib/gcc/x86_64-linux-gnu/12/cc1 usr/lib/gcc/x86_64-linux-gnu/12/lto1
find . -xtype l -delete
mkdir bin
for name in as ld; do ln -s ../usr/bin/x86_64-linux-gnu-$name bin/$name; done
"""

_MIRROR = "PTERON_DEBIAN_MIRROR"

def _mirrors(repository_ctx):
    """Of Debian: the one that the variable names, or those of apt's configuration."""
    if repository_ctx.getenv(_MIRROR):
        return [repository_ctx.getenv(_MIRROR)]
    folder, found = repository_ctx.path("/etc/apt/sources.list.d"), []
    files = [repository_ctx.path("/etc/apt/sources.list")]
    for file in files + (folder.readdir(watch = "no") if folder.exists else []):
        lines = repository_ctx.read(file, watch = "no").split("\n") if file.exists else []
        words = [word for line in lines if not line.startswith("#") for word in line.split(" ")]
        found += [word for word in words if "://" in word and word.rstrip("/").endswith("/debian")]
    if not found:
        fail("GCC of Debian's packages: /etc/apt names no mirror of Debian. Use --repo_env=%s=URL" % _MIRROR)
    return found

def _debian_compiler_impl(repository_ctx):
    mirrors = [mirror.rstrip("/") for mirror in _mirrors(repository_ctx)]
    packages = json.decode(repository_ctx.read(repository_ctx.attr.packages))
    for path, sha256 in packages.items():
        urls = ["%s/%s" % (mirror, path) for mirror in mirrors]
        repository_ctx.download_and_extract(urls, sha256 = sha256, type = "deb")
        repository_ctx.extract("data.tar.xz", output = "root")
        repository_ctx.delete("data.tar.xz")
    done = repository_ctx.execute(["sh", "-ec", _ARRANGE], working_directory = "root")
    if done.return_code:
        fail(done.stderr)
    repository_ctx.file("root/g++", _WRAPPER)
    repository_ctx.file("compiler.json", json.encode({"command": "root/g++"}))
    repository_ctx.file("BUILD.bazel", """
filegroup(
    name = "compiler",
    srcs = ["compiler.json"],
    data = ["root"],
    visibility = ["//visibility:public"],
)
""")

_debian_compiler = repository_rule(
    implementation = _debian_compiler_impl,
    attrs = {"packages": attr.label(default = Label("//third_party/compiler:debian.json"))},
)

def _compiler_impl(_module_ctx):
    _local_compiler(name = "local_compiler")
    _debian_compiler(name = "debian_compiler")

compiler = module_extension(implementation = _compiler_impl)
