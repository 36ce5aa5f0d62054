"""Which Bazel tools/bazel runs, and how the launcher of the private one behaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.bootstrap import launcher
from tools.bootstrap.tests.machine import Machine


@pytest.mark.parametrize("variable", ["BAZEL_REAL", "PTERON_BAZEL"])
def test_the_named_program_runs(machine: Machine, variable: str) -> None:
    named = machine.add_program("named-bazel", 'printf "%s|" "$@"')
    machine.environment[variable] = str(named)
    done = machine.bazel("test", "//a b", "--x=*")
    assert (done.returncode, done.stdout, done.stderr) == (0, "test|//a b|--x=*|", "")


def test_exit_status_is_bazels(machine: Machine) -> None:
    machine.environment["BAZEL_REAL"] = str(machine.add_program("real", "exit 3"))
    assert machine.bazel("test").returncode == 3


def test_a_finished_setup_starts_without_python_apt_or_network(machine: Machine) -> None:
    start = machine.cache / "pteron/setups" / machine.setup_key() / "bazel"
    start.parent.mkdir(parents=True)
    start.symlink_to(machine.add_program("private", 'echo "private $*"'))
    done = machine.bazel("info")
    assert (done.returncode, done.stdout, done.stderr) == (0, "private info\n", "")


@pytest.mark.parametrize("xdg", [None, "", "relative"])
def test_the_cache_is_in_home_without_an_absolute_xdg_cache_home(
    machine: Machine, tmp_path: Path, xdg: str | None
) -> None:
    start = tmp_path / ".cache/pteron/setups" / machine.setup_key() / "bazel"
    start.parent.mkdir(parents=True)
    start.symlink_to(machine.add_program("private", "echo private"))
    machine.environment["HOME"] = str(tmp_path)
    del machine.environment["XDG_CACHE_HOME"]
    if xdg is not None:
        machine.environment["XDG_CACHE_HOME"] = xdg
    assert machine.bazel("info").stdout == "private\n"


def test_an_edited_bootstrap_is_another_setup(machine: Machine) -> None:
    before = machine.setup_key()
    with open(machine.checkout / "tools/bootstrap/packages.py", "a", encoding="utf-8") as file:
        file.write("# edited\n")
    assert machine.setup_key() != before


@pytest.fixture
def private(tmp_path: Path) -> tuple[Path, Path]:
    """A launcher over a tree whose Bazel prints its arguments; (launcher, tree)."""
    tree, home = tmp_path / "tree", tmp_path / "home"
    for folder in ("usr/bin", "usr/lib/jvm/java-25-openjdk/bin", "etc/bazel"):
        (tree / folder).mkdir(parents=True)
    (tree / "usr/lib/jvm/java-25-openjdk/bin/java").touch()
    (tree / "usr/lib/jvm/java-1.25.0-openjdk").symlink_to("java-25-openjdk")
    (tree / "etc/bazel/bazelrc").write_text(
        "build --sandbox_debug\ncommon --override_module=rules_cc=/usr/share/bazel/rules/cc\n"
    )
    bazel = tree / "usr/bin/bazel"
    bazel.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    bazel.chmod(0o755)
    home.mkdir()
    launcher.write(home, home, tree, tmp_path / "cache")
    return home / "bazel", tree


def run(start: Path, cwd: Path, machine: Machine) -> list[str]:
    machine.environment["BAZEL_REAL"] = str(start)
    machine.checkout = machine.checkout.rename(cwd / "checkout")
    return machine.bazel("build", "//x").stdout.splitlines()


def test_launcher_passes_its_rc_files_and_then_the_arguments(
    private: tuple[Path, Path], machine: Machine, tmp_path: Path
) -> None:
    start, tree = private
    assert run(start, tmp_path, machine) == [
        "--nosystem_rc",
        f"--bazelrc={start.parent}/bazelrc",
        f"--bazelrc={start.parent}/disk_cache.bazelrc",
        f"--output_user_root={tmp_path}/cache/output",
        "build",
        "//x",
    ]
    rc = (start.parent / "bazelrc").read_text()
    assert f"common --override_module=rules_cc={tree}/usr/share/bazel/rules/cc\n" in rc
    assert f"startup --server_javabase={tree}/usr/lib/jvm/java-25-openjdk\n" in rc
    assert "sandbox_debug" not in rc


def test_tests_share_what_they_compile(
    private: tuple[Path, Path], machine: Machine, tmp_path: Path
) -> None:
    start, _ = private
    run(start, tmp_path, machine)
    objects = tmp_path / "cache" / "test_objects"
    assert objects.is_dir()
    rc = (start.parent / "bazelrc").read_text()
    assert f"--sandbox_writable_path={objects} --test_env=PTERON_CACHE_DIR={objects}\n" in rc


def test_the_users_disk_cache_wins(
    private: tuple[Path, Path], machine: Machine, tmp_path: Path
) -> None:
    (machine.checkout / "MODULE.bazel").touch()
    (machine.checkout / "user.bazelrc").write_text("common --disk_cache=/elsewhere\n")
    assert "--bazelrc=/dev/null" in run(private[0], tmp_path, machine)


def test_a_removed_tree_is_set_up_again(private: tuple[Path, Path], machine: Machine) -> None:
    start, tree = private
    (tree / "usr/bin/bazel").unlink()
    machine.environment["BAZEL_REAL"] = str(start)
    error = machine.error("test")
    assert f"the private Bazel in {tree} is gone. Run tools/bazel again to set it up." in error
    assert not start.exists()
