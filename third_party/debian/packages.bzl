"""A repository of Debian's packages, which have digests.

    debian_packages(
        name = "debian_compiler",
        packages = Label("//third_party/compiler:debian.json"),
        programs = ["usr/bin/x86_64-linux-gnu-g++-12"],
        build_file_content = "...",
    )

`root` is what they contain. README.md says which mirror, and what programs need of a machine.
"""

_MIRROR = "PTERON_DEBIAN_MIRROR"

# Runs the program beside it with the loader and the libraries of the packages.
_SCRIPT = """\
#!/bin/sh
d=$(CDPATH='' cd "${0%%/*}/%s" && pwd)
exec "$d/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" --argv0 "$0" \\
  --library-path "$d/usr/lib/x86_64-linux-gnu:$d/lib/x86_64-linux-gnu" "$0.elf" "$@"
"""

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
        fail("%s is of Debian's packages, and /etc/apt names no mirror of Debian. Use --repo_env=%s=URL" %
             (repository_ctx.original_name, _MIRROR))
    return found

def _debian_packages_impl(repository_ctx):
    mirrors = [mirror.rstrip("/") for mirror in _mirrors(repository_ctx)]
    for path, sha256 in json.decode(repository_ctx.read(repository_ctx.attr.packages)).items():
        urls = ["%s/%s" % (mirror, path) for mirror in mirrors]
        repository_ctx.download_and_extract(urls, sha256 = sha256, type = "deb")
        repository_ctx.extract("data.tar.xz", output = "root")
        repository_ctx.delete("data.tar.xz")
    programs = repository_ctx.attr.programs
    command = repository_ctx.attr.arrange + """
rm -r usr/share usr/lib/x86_64-linux-gnu/gconv
find . -xtype l -delete  # links to what is in packages that are not there
for program; do mv "$program" "$program.elf"; done
"""
    done = repository_ctx.execute(["sh", "-ec", command, "sh"] + programs, working_directory = "root")
    if done.return_code:
        fail(done.stderr)
    for program in programs:
        repository_ctx.file("root/" + program, _SCRIPT % "/".join([".."] * program.count("/")))
    for path, text in repository_ctx.attr.texts.items():
        repository_ctx.file(path, text)
    repository_ctx.symlink(repository_ctx.attr.build_file, "BUILD.bazel")

debian_packages = repository_rule(
    implementation = _debian_packages_impl,
    attrs = {
        "arrange": attr.string(doc = "Shell commands in `root`."),
        "build_file": attr.label(mandatory = True),
        "packages": attr.label(doc = "JSON: path on a mirror to sha256.", mandatory = True),
        "programs": attr.string_list(doc = "Become scripts that run them, in place."),
        "texts": attr.string_dict(doc = "More files: path to text."),
    },
)
