"""Memory of the 12-layer decoder: while it is lowered, and while it runs without torch.

  tools/bazel run //tests/benchmarks:gpt_memory

Each part is a process of its own; figures are MB of resident memory: anonymous (the process's own)
and of files (code, and weights that are mapped from the program). Fails if the weights are in
memory twice while it runs.
"""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

from absl import app, flags

_PART = flags.DEFINE_enum("part", None, ["lower", "run"], "For the processes of this program.")
_PROGRAM = flags.DEFINE_string("program", None, "Likewise: the .pte file.")
_SLACK = 16e6  # bytes beside weights and caches: the code, planned memory, the allocator's own


def resident() -> dict[str, float]:
    """MB of this process now, and the most there were."""
    status = pathlib.Path("/proc/self/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    kinds = {"anonymous": "RssAnon", "files": "RssFile"}
    found = {kind: int(fields[name].split()[0]) * 1024 / 1e6 for kind, name in kinds.items()}
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return found


def lower(path: str) -> dict[str, dict[str, float]]:
    """Memory after each step, and what the model holds."""
    from pteron.backends.cpu import CpuPartitioner
    from pteron.exir import to_edge_transform_and_lower
    from tests.models.gpt import export_methods, make_gpt

    gpt = make_gpt()
    held = {
        "weights": sum(p.nbytes for p in gpt.parameters()) / 1e6,
        "caches": sum(b.nbytes for b in gpt.buffers()) / 1e6,
    }
    steps = {"model": held, "before": resident()}
    programs = export_methods(gpt)
    steps["exported"] = resident()
    manager = to_edge_transform_and_lower(programs, partitioner=[CpuPartitioner()])
    steps["lowered"] = resident()
    manager.to_executorch().save(path)
    steps["saved"] = resident()
    return steps


def run(path: str) -> dict[str, dict[str, float]]:
    """Memory before the program is loaded, then, and after a prompt and 16 steps."""
    sys.modules["torch"] = None  # type: ignore[assignment]
    import numpy as np

    from pteron.runtime import Runtime

    runtime = Runtime.get()
    steps = {"before": resident()}
    program = runtime.load_program(path)
    session = program.session()
    prefill = program.load_method("prefill", session=session)
    decode = program.load_method("decode", session=session)
    steps["loaded"] = resident()
    prefill.execute([np.arange(8, dtype=np.int64)[None]])
    for position in range(8, 24):
        decode.execute([np.array([[position]], np.int64), np.array([position], np.int64)])
    steps["ran"] = resident()
    return steps


def child(part: str, path: str) -> dict[str, dict[str, float]]:
    """The figures of one part, from a process of its own."""
    command = [sys.executable, os.path.abspath(__file__), f"--part={part}", f"--program={path}"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main(argv: list[str]) -> None:
    del argv
    if _PART.value:
        print(json.dumps({"lower": lower, "run": run}[_PART.value](_PROGRAM.value)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "gpt.pte")
        parts = {part: child(part, path) for part in ("lower", "run")}
        size = pathlib.Path(path).stat().st_size / 1e6
    model = parts["lower"].pop("model")
    print(f"weights {model['weights']:.1f}, caches {model['caches']:.1f}, file {size:.1f} MB")
    print(f"{'':16}{'anonymous':>10}{'files':>10}{'peak':>10}")
    for part, steps in parts.items():
        for step, found in steps.items():
            figures = "".join(f"{found[kind]:10.1f}" for kind in ("anonymous", "files", "peak"))
            print(f"{part + ', ' + step:16}{figures}")
    grown = sum(
        parts["run"]["ran"][kind] - parts["run"]["before"][kind] for kind in ("anonymous", "files")
    )
    expected = model["weights"] + model["caches"] + _SLACK / 1e6
    print(
        f"running takes {grown:.1f} MB; weights, caches and {_SLACK / 1e6:.0f} are {expected:.1f}"
    )
    if grown > expected:
        sys.exit("the weights are in memory twice")


if __name__ == "__main__":
    app.run(main)
