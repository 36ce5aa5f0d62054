"""A build farm of one machine: BuildGrid with its PostgreSQL, and a worker.

    with BuildFarm(folder) as farm:
        subprocess.run(["bazel", "build", f"--remote_executor={farm.url}", ...])
        assert farm.commands

BuildGrid schedules and stores. The worker here speaks Google's Remote Worker API, as
buildbox-worker does, and runs one action at a time in a folder with its inputs alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pgserver
from buildgrid._protos.build.bazel.remote.execution.v2 import remote_execution_pb2 as reapi
from buildgrid._protos.google.devtools.remoteworkers.v1test2 import bots_pb2, bots_pb2_grpc
from buildgrid.server.client.cas import Downloader, Uploader

_SETTINGS = """
server:
  - !channel {{address: "127.0.0.1:{port}", insecure-mode: true}}
authorization: {{method: none}}
connections:
  - !sql-connection &sql {{connection-string: "{sql}"}}
storages:
  - !disk-storage &storage {{path: "{folder}/cas"}}
caches:
  - !lru-action-cache &actions {{storage: *storage, max-cached-refs: 256, allow-updates: true}}
schedulers:
  - !sql-scheduler &scheduler
    sql: *sql
    storage: *storage
    action-cache: *actions
    property-set: !dynamic-property-set {{match-property-keys: [OSFamily]}}
    assigners:
      - !priority-age-assigner {{count: 1, interval: 0.2}}
instances:
  - name: main
    services:
      - !action-cache {{cache: *actions}}
      - !execution {{scheduler: *scheduler}}
      - !cas {{storage: *storage}}
      - !bytestream {{storage: *storage}}
thread-pool-size: 1000  # Bazel uploads many files at a time
"""


class BuildFarm:
    """Runs until the end of the block.

    Args:
      folder: for its files, where other users may read: PostgreSQL does not run as root.

    Attributes:
      url: for --remote_executor, with --remote_instance_name=main.
      commands: the arguments of each action that ran.
      loaded: of each action, the programs and shared libraries that are not among its inputs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.commands: list[list[str]] = []
        self.loaded: list[set[str]] = []
        self._stack = contextlib.ExitStack()
        self._stop = threading.Event()
        self.url = ""

    def __enter__(self) -> BuildFarm:
        with contextlib.ExitStack() as stack:
            sql = _postgresql(self._folder, stack)
            port = _free_port()
            settings = self._folder / "settings.yml"
            settings.write_text(_SETTINGS.format(port=port, sql=sql, folder=self._folder))
            bgd = [sys.executable, "-c", "from buildgrid.server.app.cli import cli; cli()"]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            subprocess.run([*bgd, "migrate", "apply", sql], env=environment, check=True)
            log = stack.enter_context(open(self._folder / "buildgrid.log", "w"))
            server = subprocess.Popen(
                [*bgd, "server", "start", str(settings)], env=environment, stdout=log, stderr=log
            )
            stack.callback(_end, server)
            channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
            grpc.channel_ready_future(channel).result(timeout=60)
            worker = threading.Thread(target=self._work, args=(channel,))
            stack.callback(worker.join)
            stack.callback(self._stop.set)
            worker.start()
            self.url = f"grpc://127.0.0.1:{port}"
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _work(self, channel: grpc.Channel) -> None:
        bots = bots_pb2_grpc.BotsStub(channel)
        session = bots_pb2.BotSession(bot_id="worker", status=bots_pb2.OK)
        device = session.worker.devices.add(handle="machine")
        device.properties.add(key="OSFamily", value="linux")
        # A call waits for work, up to most of its deadline.
        session = bots.CreateBotSession(
            bots_pb2.CreateBotSessionRequest(parent="main", bot_session=session), timeout=5
        )
        pool, done = ThreadPoolExecutor(1), dict[str, Any]()
        while not self._stop.is_set():
            for lease in session.leases:
                if lease.id not in done:
                    lease.state = bots_pb2.ACTIVE
                    action = reapi.Action()
                    if not lease.payload.Unpack(action):
                        digest = reapi.Digest()
                        lease.payload.Unpack(digest)
                        Downloader(channel, "main").get_message(digest, action)
                    done[lease.id] = pool.submit(self._run, channel, action)
                elif done[lease.id].done():
                    lease.result.Pack(done.pop(lease.id).result())
                    lease.status.code = 0
                    lease.state = bots_pb2.COMPLETED
            request = bots_pb2.UpdateBotSessionRequest(name=session.name, bot_session=session)
            session = bots.UpdateBotSession(request, timeout=5)
            if done:
                time.sleep(0.1)
        pool.shutdown()

    def _run(self, channel: grpc.Channel, action: Any) -> Any:
        """The result of an action."""
        cas, uploads = Downloader(channel, "main"), Uploader(channel, "main")
        command = cas.get_message(action.command_digest, reapi.Command())
        self.commands.append(list(command.arguments))
        temporary = tempfile.TemporaryDirectory
        with temporary(dir=self._folder) as root, temporary(dir=self._folder) as log:
            self._fetch(cas, action.input_root_digest, Path(root))
            place = Path(root, command.working_directory)
            outputs = command.output_paths or [*command.output_files, *command.output_directories]
            for output in outputs:
                (place / output).parent.mkdir(parents=True, exist_ok=True)
            environment = {v.name: v.value for v in command.environment_variables}
            # What glibc's loader loads, in a file of each process.
            logged = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": f"{log}/process"}
            ran = subprocess.run(
                list(command.arguments),
                cwd=place,
                env={**environment, **logged},
                capture_output=True,
            )
            self.loaded.append(_outside(root, Path(log)))
            result = reapi.ActionResult(
                exit_code=ran.returncode, stdout_raw=ran.stdout, stderr_raw=ran.stderr
            )
            for output in outputs:
                path = place / output
                if path.is_file():
                    digest = uploads.put_blob(path.open("rb"))
                    executable = os.access(path, os.X_OK)
                    result.output_files.add(path=output, digest=digest, is_executable=executable)
        uploads.close()
        return result

    def _fetch(self, cas: Downloader, root: Any, place: Path) -> None:
        """Links an input root from the blobs that the worker has, after it fetched the others."""
        store = self._folder / "blobs"
        store.mkdir(exist_ok=True)
        files: list[tuple[Any, Path]] = []
        folders: Sequence[tuple[Any, Path]] = [(root, place)]
        while folders:
            made = [reapi.Directory() for _ in folders]
            for directory, (digest, _) in zip(made, folders, strict=True):
                directory.ParseFromString(self._blob(cas, digest).read_bytes())
            inner = []
            for directory, (_, folder) in zip(made, folders, strict=True):
                folder.mkdir(exist_ok=True)
                files += [(file, folder / file.name) for file in directory.files]
                inner += [(child.digest, folder / child.name) for child in directory.directories]
                for link in directory.symlinks:
                    (folder / link.name).symlink_to(link.target)
            folders = inner
        with ThreadPoolExecutor(8) as pool:
            unique = {file.digest.hash: file.digest for file, _ in files}
            list(pool.map(lambda digest: self._blob(cas, digest), unique.values()))
        for file, path in files:
            os.link(self._blob(cas, file.digest), path)

    def _blob(self, cas: Downloader, digest: Any) -> Path:
        path = self._folder / "blobs" / digest.hash
        if not path.exists():
            data = cas.get_blob(digest)
            assert data is not None, f"the server has no blob {digest.hash}"
            part = path.with_suffix(".part")
            part.write_bytes(data)
            part.chmod(0o555)
            part.rename(path)
        return path


def _outside(root: str, log: Path) -> set[str]:
    """Paths outside `root`, and names of programs that were found by PATH.

    Below /proc is what a process has open itself: the model's library.
    """
    text = "".join(file.read_text(errors="replace") for file in log.iterdir())
    loaded = set(re.findall(r"(?:calling init|transferring control): (.+)", text))
    return {
        name
        for name in loaded
        if not name.startswith((f"{root}/", "/proc/")) and (name[0] == "/" or "/" not in name)
    }


def _postgresql(folder: Path, stack: contextlib.ExitStack) -> str:
    """A database of an unprivileged user, which PostgreSQL insists on."""
    user: dict[str, Any] = {"user": "nobody"} if os.geteuid() == 0 else {}
    # Programs and libraries are copied to where that user may read them.
    packages, copied = Path(pgserver.__file__).parents[1], folder / "postgresql"
    for name in ("pgserver/pginstall", "pgserver.libs"):
        shutil.copytree(packages / name, copied / name)
    home, data = copied / "pgserver/pginstall", copied / "data"
    folder.chmod(0o755)
    data.mkdir(0o700)
    if user:
        shutil.chown(data, "nobody")
    said: dict[str, Any] = {"stdout": subprocess.DEVNULL, "cwd": data, "check": True, **user}
    subprocess.run(
        [home / "bin/initdb", "-D", data, "-U", "pteron", "--auth=trust", "--no-sync"], **said
    )
    port = _free_port()
    postgres = [f"{home}/bin/postgres", "-D", f"{data}", "-p", f"{port}", "-k", ""]
    postgres += ["-h", "127.0.0.1", "-F"]
    with open(folder / "postgresql.log", "w") as log:
        server = subprocess.Popen(postgres, stdout=log, stderr=log, cwd=data, **user)
    stack.callback(_end, server)
    until = time.monotonic() + 60
    ready = [f"{home}/bin/pg_isready", "-h", "127.0.0.1", "-p", f"{port}"]
    while subprocess.run(ready, stdout=subprocess.DEVNULL).returncode:
        assert time.monotonic() < until and server.poll() is None, "PostgreSQL did not start"
        time.sleep(0.1)
    return f"postgresql+psycopg2://pteron@127.0.0.1:{port}/postgres"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _end(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
