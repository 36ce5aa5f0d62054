"""What a compile action of Bazel becomes for clangd."""

from pathlib import Path

from tools.build.compile_commands import commands


def test_one_entry_a_source() -> None:
    options = ["gcc", "-fno-canonical-system-headers", "-Ibazel-out/bin/a", "-iquote", "external/b"]
    actions = [
        {"arguments": [*options, "-c", "a/b.cpp", "-o", "a/b.pic.o"]},
        {"arguments": [*options, "-c", "a/b.cpp", "-o", "c/b.pic.o"]},
        {"arguments": [*options, "-c", "bazel-out/k8-opt/bin/a/made.cpp", "-o", "made.o"]},
    ]
    first, second = commands(actions, Path("/checkout"), Path("/base/execroot/_main"))
    assert first["directory"] == second["directory"] == "/base/execroot/_main"
    assert first["file"] == "/checkout/a/b.cpp"
    assert first["arguments"] == [
        *("gcc", "-Ibazel-out/bin/a", "-iquote", "/base/external/b"),
        *("-c", "a/b.cpp", "-o", "a/b.pic.o"),
    ]
    assert second["file"] == "/base/execroot/_main/bazel-out/k8-opt/bin/a/made.cpp"
