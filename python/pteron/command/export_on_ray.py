"""`pteron export --ray=FILE`: many exports, each a task of a Ray cluster."""

import contextlib
import copy
import dataclasses
import hashlib
import importlib.metadata
import io
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from absl import flags

from pteron.command.usage import UsageError, human_nbytes, only


@dataclasses.dataclass
class Job:
    """A line of the file. `state` is done, kept or FAILED in the end."""

    line: int
    arguments: list[str]
    output: Path
    key: str
    state: str = "kept"
    seconds: float = 0.0
    nbytes: int = 0
    error: str = ""

    @property
    def record(self) -> Path:
        """Written after the program: says what it was made from, and the report."""
        return self.output.with_suffix(".report.json")


def run(file: str, values: flags.FlagValues, options: Mapping[str, Any]) -> list[Job]:
    """Lowers what is not there yet.

    Args:
      file: each line has the arguments of one `pteron export`; `#` starts a comment.
      values: the flags of that command.
      options: of `ray.remote`, such as num_cpus.
    """
    from pteron.llm.generator import import_package

    jobs = _jobs(file, values)
    todo = [job for job in jobs if not _is_done(job)]
    if not todo:
        return jobs
    ray = import_package("ray", "ray")
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            contextlib.redirect_stdout(sys.stderr)
        )  # what Ray says of its processes
        if not ray.is_initialized():
            ray.init()
            stack.callback(ray.shutdown)
        # A process for each task: models' modules do not meet, and their memory is released.
        lower = ray.remote(max_calls=1, max_retries=1, **options)(_lower)
        running = {lower.remote(job.arguments, job.output.name, os.getcwd()): job for job in todo}
        while running:
            (task,), _ = ray.wait(list(running))
            job = running.pop(task)
            try:
                job.error, job.seconds, report, files = ray.get(task)
                if not job.error:
                    _write(job, report, files)
            except (ray.exceptions.RayError, OSError) as error:
                job.error = str(error)
            job.state = "FAILED" if job.error else "done"
            said = f"{len(todo) - len(running)} of {len(todo)}: {job.output} {job.state}"
            print(f"{said}\n{job.error}" if job.error else said)
    return jobs


def table(jobs: list[Job]) -> str:
    """A line for each job."""
    width = max(len(str(job.output)) for job in jobs)
    rows = [f"line  {'program':{width}}  state    time      size"]
    for job in jobs:
        size = f"{human_nbytes(job.nbytes):>9}" if job.nbytes else job.error.partition("\n")[0]
        row = f"{job.line:>4}  {job.output!s:{width}}  {job.state:6}{job.seconds:>6.0f} s  {size}"
        rows.append(row)
    return "\n".join(rows)


def _jobs(file: str, values: flags.FlagValues) -> list[Job]:
    jobs: dict[Path, Job] = {}
    wrong = []
    versions = []
    for package in ("pteron", "torch"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.append(importlib.metadata.version(package))
    for number, line in enumerate(Path(file).read_text("utf-8").splitlines(), 1):
        try:
            if not (arguments := shlex.split(line, comments=True)):
                continue
            own = copy.deepcopy(values)
            own.unparse_flags()
            own.set_gnu_getopt()
            (model,) = only(own(["pteron", *arguments])[1:], "FILE.py:function", flag="-o")
            if own.ray or not own.output:
                raise UsageError("expected one model, -o model.pte and no --ray")
            path = Path(model if model.endswith(".pt2") else model.rpartition(":")[0])
            digest = hashlib.sha256(path.read_bytes() if path.is_file() else b"").hexdigest()
            key = hashlib.sha256(json.dumps([arguments, digest, versions]).encode()).hexdigest()
            job = Job(number, arguments, Path(own.output), key)
            first = jobs.setdefault(job.output, job)
            if first is not job:
                raise UsageError(f"{job.output} is the output of line {first.line}, too")
        except (flags.Error, UsageError, ValueError) as error:
            wrong.append(f"line {number}: {error}")
    if wrong or not jobs:
        raise UsageError(f"{file}: " + ("\n".join(wrong) or "no line with a model"))
    return list(jobs.values())


def _is_done(job: Job) -> bool:
    try:
        return job.output.is_file() and json.loads(job.record.read_bytes())["key"] == job.key
    except (OSError, ValueError, KeyError):
        return False


def _lower(
    arguments: list[str], name: str, folder: str
) -> tuple[str, float, Any, dict[str, bytes]]:
    """On a node: the error, seconds, the report, and the files by name."""
    from pteron.command.main import main

    if not os.path.isdir(folder):
        return f"no folder {folder} on node {os.uname().nodename}", 0.0, None, {}
    os.chdir(folder)
    out, err, start = io.StringIO(), io.StringIO(), time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(["pteron", "export", *arguments, "--json", f"--output={scratch}/{name}"])
        seconds = time.monotonic() - start
        if code:
            return err.getvalue().strip() or f"exit code {code}", seconds, None, {}
        files = {path.name: path.read_bytes() for path in Path(scratch).iterdir()}
    return "", seconds, json.loads(out.getvalue()), files


def _write(job: Job, report: Any, files: Mapping[str, bytes]) -> None:
    """Weights, then the program, then the record of both."""
    from pteron.exir._serialize.container import Chunks

    paths = {job.output.with_name(name): data for name, data in files.items()}
    for path in sorted(paths, key=job.output.__eq__):
        Chunks([memoryview(paths[path])]).save(path)
    job.nbytes = sum(map(len, files.values()))
    sizes = {str(path): len(data) for path, data in paths.items()}
    record = {"key": job.key, **report, "files": sizes}
    Chunks([memoryview(json.dumps(record, indent=2).encode())]).save(job.record)
