"""The search for a Bazel that the machine already has."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tools.bootstrap import online
from tools.bootstrap.tests.machine import Machine


class Registry(BaseHTTPRequestHandler):
    """Answers as a module registry does."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/bazel_registry.json" else 404)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets a local server be the module registry."""
    server = HTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setattr(online, "REGISTRY", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield
    server.shutdown()
    server.server_close()


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets nobody listen where the module registry should be."""
    monkeypatch.setattr(online, "REGISTRY", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture(autouse=True)
def path(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", machine.environment["PATH"])


@pytest.mark.parametrize("version", ["7.7.0", "7.7.1", "7.12.0", "8.4.2", "7.7.0-pre.20260101.1"])
@pytest.mark.usefixtures("reachable")
def test_a_suitable_bazel_is_used(machine: Machine, version: str) -> None:
    bazel = machine.add_program("bazel", f"echo bazel {version}")
    assert online.find_bazel() == str(bazel)


@pytest.mark.parametrize(
    "answer", ["bazel 6.5.0", "bazel 7.6.2", "bazel 9.0.0", "bazel no_version", ""]
)
@pytest.mark.usefixtures("reachable")
def test_another_bazel_is_not(machine: Machine, answer: str) -> None:
    machine.add_program("bazel", f"echo {answer}")
    assert online.find_bazel() is None


@pytest.mark.usefixtures("reachable")
def test_bazelisk_comes_first(machine: Machine) -> None:
    machine.add_program("bazel", "echo bazel 7.7.1")
    bazelisk = machine.add_program("bazelisk")
    assert online.find_bazel() == str(bazelisk)


@pytest.mark.usefixtures("unreachable")
def test_without_the_registry_nothing_is_used(machine: Machine) -> None:
    machine.add_program("bazelisk")
    assert online.find_bazel() is None


@pytest.mark.usefixtures("reachable")
def test_tools_bazel_on_path_does_not_find_itself(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    bazel = machine.add_program("bazel", "echo bazel 7.7.1")
    monkeypatch.setattr(online, "_ENTRY", bazel)
    assert online.find_bazel() is None


@pytest.mark.usefixtures("reachable")
def test_nothing_on_path() -> None:
    assert online.find_bazel() is None
