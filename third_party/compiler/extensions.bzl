"""The module extension for the machine's C++ compiler: `@local_compiler//:compiler.json`.

    compiler = use_extension("//third_party/compiler:extensions.bzl", "compiler")
    use_repo(compiler, "local_compiler")

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

def _compiler_impl(_module_ctx):
    _local_compiler(name = "local_compiler")

compiler = module_extension(implementation = _compiler_impl)
