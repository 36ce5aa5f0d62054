"""Runs the pages: Python blocks one after another, commands of shell blocks, files that are named.

A `text` block says, line by line, what the block before it prints or raises. Blocks of Python that
are called `gpu` run where there is one; elsewhere they are only parsed. A command that ends with
`&` is a server, which runs until the end, on a free port instead of 8123. Pages that are joined by
`+` run in one folder.
"""

import contextlib
import importlib
import io
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from absl.testing import flagsaver

from pteron.command.main import main
from pteron.runtime import Runtime

_PAGES = Path(__file__).absolute().parents[1]
_BLOCK = re.compile(r"^```(\w+) ?([\w.]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[tuple[str, str, str]]:
    """Language, file name and text of each block."""
    return _BLOCK.findall((_PAGES / f"{page}.md").read_text(encoding="utf-8"))


def command(line: str, servers: contextlib.ExitStack) -> None:
    """Runs a line of a shell block."""
    argv = shlex.split(line)
    if argv[-1] == "&":
        code = "import sys; from pteron.command.main import main; sys.exit(main())"
        server = subprocess.Popen(
            [sys.executable, "-c", code, *argv[1:-1]], stderr=subprocess.PIPE, text=True
        )
        servers.enter_context(server)
        servers.callback(server.terminate)
        assert server.stderr is not None
        said = []
        for each in server.stderr:
            said.append(each)
            if "running on" in each:
                return
        pytest.fail(f"{line}\n{''.join(said)}")
    assert argv[0] == "pteron", line
    values = importlib.import_module(f"pteron.command.{argv[1].replace('-', '_')}").FLAGS
    saved = flagsaver.save_flag_values(values)
    try:
        assert main(argv) == 0, line
    finally:
        flagsaver.restore_flag_values(saved, values)


def run(language: str, text: str, names: dict[str, Any], servers: contextlib.ExitStack) -> str:
    """What a block prints, and the error that it raises."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if language == "sh":
            for line in text.splitlines():
                command(line, servers)
            return printed.getvalue()
        try:
            exec(text, names)
        except Exception as error:
            return f"{printed.getvalue()}{type(error).__name__}: {error}"
    return printed.getvalue()


@pytest.mark.parametrize("page", os.environ["PAGES"].split())
def test_a_page_does_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": page}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    found = [block for name in page.split("+") for block in blocks(name)] + [("", "", "")]
    with contextlib.ExitStack() as servers:
        for (language, file, text), (then, _, expected) in zip(found, found[1:], strict=False):
            text = text.replace("8123", port)
            if file == "gpu" and not Runtime.get().backend_registry.is_available("CudaBackend"):
                compile(text, page, "exec")
            elif file not in ("", "gpu"):
                Path(file).write_text(text, encoding="utf-8")
            elif language not in ("text", "cpp"):
                said = run(language, text, names, servers)
                if then == "text":
                    assert [line for line in expected.splitlines() if line not in said] == [], said
                else:
                    assert "Error: " not in said, f"{text}\n{said}"
