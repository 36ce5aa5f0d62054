"""pteron run --isolated: a program's code tries what it may not, in a process without rights."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from absl.testing import flagsaver

import pteron
from pteron.command import run
from pteron.command.main import main
from tests.trust import model
from tests.trust.altered import altered

# Code without libraries, which runs when it is opened.
_SOURCE = r"""
static long call(long n, long a, long b, long c, long d, long e) {
  register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = 0;
  __asm__ volatile("syscall" : "+a"(n) : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return n;
}
// Ends the process: 99 for success, else the number of the error.
static void say(long result) { call(231, result < 0 ? -result : 99, 0, 0, 0, 0); }
__attribute__((constructor)) static void attack(void) { %s }
"""
_FORBIDDEN = "forbidden system call"
_OPEN = 'say(call(257, -100, (long)"%s", %s, 0600, 0));'

ATTACKS = {
    "socket": ("say(call(41, 2, 1, 0, 0, 0));", _FORBIDDEN),
    "fork": ("say(call(57, 0, 0, 0, 0, 0));", _FORBIDDEN),
    "clone": ("say(call(56, 17, 0, 0, 0, 0));", _FORBIDDEN),
    "exec": ('say(call(59, (long)"/bin/true", 0, 0, 0, 0));', _FORBIDDEN),
    "kill its parent": ("say(call(62, call(110, 0, 0, 0, 0, 0), 9, 0, 0, 0));", _FORBIDDEN),
    "kill all": ("say(call(62, -1, 9, 0, 0, 0));", _FORBIDDEN),
    "ptrace": ("say(call(101, 0, 0, 0, 0, 0));", _FORBIDDEN),
    "write a file": (_OPEN % ("{folder}/written", "0101"), "exit code 13"),
    "write an old file": (_OPEN % ("{folder}/secret", "01001"), "exit code 13"),
    "remove a file": ('say(call(87, (long)"{folder}/secret", 0, 0, 0, 0));', _FORBIDDEN),
    "raise a limit": ("long big[2] = {-1, -1}; say(call(302, 0, 9, (long)big, 0, 0));", _FORBIDDEN),
    "read a file": (_OPEN % ("{folder}/secret", "0"), "exit code 13"),
    "read a folder": (_OPEN % ("/", "0"), "exit code 13"),
    "read memory": (_OPEN % ("/proc/self/mem", "0"), "exit code 13"),
    "open a device": (_OPEN % ("/dev/zero", "0"), "exit code 13"),
    "a descriptor of the parent": ("say(call(0, {descriptor}, (long)call, 0, 0, 0));", "code 9"),
    "address space": ("say(call(9, 0, 1L << 32, 3, 0x22, -1));", "exit code 12"),
    "shared memory": ("say(call(9, 0, 1L << 32, 3, 0x21, -1));", "exit code 12"),
    "a large file in memory": (
        'long f = call(319, (long)"a", 0, 0, 0, 0); static char part[1 << 20];'
        " for (long n = 1; n > 0; say(n < 0 ? n : 1)) while (n > 0)"
        " n = call(1, f, (long)part, 1 << 20, 0, 0);",
        "exit code 27",
    ),
    "crash": ('__asm__ volatile("hlt");', "SIGSEGV"),
    "no end": ("for (;;) ;", "took too long"),
    "a wrong result": (
        "static char part[99]; call(1, 3, (long)part, 99, 0, 0); say(-256);",
        "else",
    ),
    "text for the terminal": (
        'call(1, 3, (long)"\\033[2J", 4, 0, 0); say(-1);',
        "failed: ?[2J",
    ),
    "descriptors": (
        'for (int i = 0; i < 99; ++i) if (call(319, (long)"a", 0, 0, 0, 0) < 0) say(-24); say(0);',
        "exit code 24",
    ),
}

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="code is of x86-64")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.pte"
    module, inputs = model.build()
    pteron.export(module, inputs, path)
    arrays: dict[str, Any] = {f"input_{i}": x.numpy() for i, x in enumerate(inputs)}
    np.savez(path.parent / "inputs.npz", **arrays)
    return path


@pytest.fixture(autouse=True)
def _flags() -> Iterator[None]:
    saved = flagsaver.save_flag_values(run.FLAGS)
    yield
    flagsaver.restore_flag_values(saved, run.FLAGS)


def _run(path: Path, inputs: Path, *options: str) -> int:
    return main(["pteron", "run", str(path), "-i", str(inputs), *options])


def _code(attack: str, folder: Path) -> bytes:
    source, library = folder / "attack.c", folder / "attack.so"
    source.write_text(_SOURCE % attack)
    command = ["g++", "-x", "c", "-O1", "-fPIC", "-shared", "-nostdlib", "-fno-stack-protector"]
    subprocess.run([*command, "-o", library, source], check=True)
    return library.read_bytes()


@pytest.mark.parametrize("name", ATTACKS)
def test_code_without_rights(
    name: str, program: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text, expected = ATTACKS[name]
    (tmp_path / "secret").write_text("secret")
    with (tmp_path / "secret").open("rb") as opened:
        descriptor = os.dup2(opened.fileno(), 40)
        text = text.replace("{folder}", str(tmp_path)).replace("{descriptor}", str(descriptor))
        code = _code(text, tmp_path)

        def exchange(old: bytearray) -> None:
            assert len(code) <= len(old)
            old[:] = code + bytes(len(old) - len(code))

        attack = tmp_path / "attack.pte"
        attack.write_bytes(altered(program.read_bytes(), exchange))
        output = tmp_path / "outputs.npz"
        options = ["--isolated", "--memory=512", "-o", str(output), "--limits=run_time=0.1"]
        assert _run(attack, program.parent / "inputs.npz", *options) == 1
        os.close(descriptor)
    assert expected in capfd.readouterr().err
    assert not output.exists()
    assert (tmp_path / "secret").read_text() == "secret"
    assert not (tmp_path / "written").exists()


def test_an_ordinary_program_gives_equal_bytes(program: Path, tmp_path: Path) -> None:
    """Again and again in one process, which itself keeps its rights."""
    results = []
    for index, options in enumerate([[], ["--isolated"], ["--isolated", "--memory=512"]]):
        output = tmp_path / f"{index}.npz"
        assert _run(program, program.parent / "inputs.npz", *options, "-o", str(output)) == 0
        results.append({key: array.tobytes() for key, array in np.load(output).items()})
    assert results[0] == results[1] == results[2]
    assert len(results[0]) == 2


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-"])
def test_descriptors_that_were_closed(program: Path, tmp_path: Path, closed: str) -> None:
    code = "import sys; from pteron.command.main import main; sys.exit(main(sys.argv))"
    output = tmp_path / "outputs.npz"
    options = ["-i", str(program.parent / "inputs.npz"), "-o", str(output)]
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", code, "run"]
    subprocess.run([*command, str(program), "--isolated", *options], check=True)
    assert len(np.load(output)) == 2


class Bfloat16(torch.nn.Linear):
    """Asks the system for AMX, where the processor has it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.bfloat16()).float()


def test_a_process_that_has_not_asked_yet_may_ask_for_amx(tmp_path: Path) -> None:
    x = torch.randn(64, 32)
    model = Bfloat16(32, 48, dtype=torch.bfloat16)
    pteron.export(model, (x,), tmp_path / "model.pte")
    np.savez(tmp_path / "inputs.npz", x=x.numpy())
    code = "import sys; from pteron.command.main import main; sys.exit(main(sys.argv))"
    command = [sys.executable, "-c", code, "run", str(tmp_path / "model.pte"), "--isolated"]
    more = ["-i", str(tmp_path / "inputs.npz"), "-o", str(tmp_path / "outputs.npz")]
    subprocess.run([*command, *more], check=True)
    found = [*np.load(tmp_path / "outputs.npz").values()][0]
    torch.testing.assert_close(torch.from_numpy(found), model(x), rtol=1e-2, atol=1e-2)


class Wide(torch.nn.Module):
    """64 MB of output."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x.repeat(4096, 1024))


def test_too_little_memory_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, inputs = tmp_path / "wide.pte", tmp_path / "inputs.npz"
    pteron.export(Wide(), (torch.ones(1, 4),), path)
    np.savez(inputs, input_0=np.ones((1, 4), np.float32))
    assert _run(path, inputs, "--isolated", "--memory=16") == 1
    assert "the isolated program failed: ResourceError" in capfd.readouterr().err
    assert _run(path, inputs, "--isolated", "--memory=512") == 0
