"""The stages of a bundle: what each runs, over the unpacked tree."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

from tools.gpu import machine
from tools.gpu.case import Case, gtest_counts, junit_counts
from tools.gpu.stage import Stage

_PYTEST = (
    *("-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "no:warnings"),
    *("--tb=short", "--show-capture=no", "--import-mode=importlib"),
)
# Lowers models, several at a time if pytest-xdist is installed; a model stays in one process.
_SPREAD = ("-n", "6", "--dist=loadgroup")


def setup(tree: Path, output: Path) -> Stage:
    """What the machine has, and the Python binding compiled for its Python."""
    del output
    facts = "import sys, torch; print(sys.version, torch.__version__, torch.cuda.get_device_name())"
    environment = machine.environment(tree)
    return Stage(
        "setup",
        [
            Case("gpu", ("nvidia-smi",)),
            Case("python", machine.python("-c", facts)),
            Case("binding", machine.python(str(tree / "tools/gpu/binding.py")), seconds=400),
            Case(
                "import",
                machine.python("-c", "from pteron.runtime import Runtime; print(Runtime.get())"),
                environment=environment,
            ),
        ],
    )


def gtests(tree: Path, output: Path) -> Stage:
    """Every C++ test, alone on the GPU: some look at its free memory."""
    del output
    environment = machine.environment(tree)
    return Stage(
        "gtests",
        [
            Case(
                test.name,
                (str(test),),
                gtest_counts,
                "--gtest_output=json:",
                environment,
                seconds=120,
            )
            for test in _gtests(tree)
        ],
    )


def memcheck(tree: Path, output: Path) -> Stage:
    """The same under compute-sanitizer."""
    del output
    sanitizer = machine.program("compute-sanitizer")
    environment = machine.environment(tree)
    command = (
        *(sanitizer, "--tool=memcheck", "--error-exitcode=86", "--print-limit=20"),
        # Tests make calls that fail, on purpose, and some make none at all.
        *("--report-api-errors=no", "--require-cuda-init=no"),
    )
    return Stage(
        "memcheck",
        [
            Case(
                test.name,
                (*command, str(test)),
                gtest_counts,
                "--gtest_output=json:",
                environment,
                seconds=300,
                skip="" if sanitizer else "there is no compute-sanitizer on this machine",
            )
            for test in _gtests(tree)
        ],
    )


def export(tree: Path, output: Path) -> Stage:
    """Models lowered on this machine and run: Python, runner."""
    del output
    others = [test for test in _cuda_tests(tree) if test.stem not in _ALONE]
    others.sort(key=lambda test: test.stem not in _LONG)
    return dataclasses.replace(_pytest("export", tree, others, _spread()), parallel=4)


def lifecycle(tree: Path, output: Path) -> Stage:
    """Loading, running and unloading over and over; threads. Alone on the GPU."""
    del output
    tests = [test for test in _cuda_tests(tree) if test.stem in _ALONE]
    return _pytest("lifecycle", tree, tests, ())


def cpu(tree: Path, output: Path) -> Stage:
    """Lowering for the CPU, and running that, with this machine's torch and compiler."""
    del output
    found = [test for folder in _CPU_FOLDERS for test in (tree / folder).glob("test_*.py")]
    tests = [test for test in found if not test.stem.startswith("test_cuda_")]
    return dataclasses.replace(_pytest("cpu", tree, sorted(tests), _spread()), parallel=4)


def random_cpu(tree: Path, output: Path) -> Stage:
    """Random modules with every option of the CPU; the same command goes on until all have run."""
    options = ("--device=cpu", "--seeds=0:2000")
    return _continued("random_cpu", "random", tree, output, *options, jobs=16)


def random_cuda(tree: Path, output: Path) -> Stage:
    """Random modules that lie on the GPU, one by one: many need an operator that CUDA has not."""
    options = ("--device=cuda", "--seeds=0:500", "--configurations=cublas,triton", "--together=1")
    return _continued("random_cuda", "random", tree, output, *options, jobs=12)


def survey(tree: Path, output: Path) -> Stage:
    """Architectures of `transformers` that lie on the GPU; tables go to the output folder."""
    missing = "" if machine.has_module("transformers") else "there is no transformers here"
    options = ("--device=cuda", "--limit=200")
    return _continued("survey", "survey", tree, output, *options, jobs=14, skip=missing)


def benchmark(tree: Path, output: Path) -> Stage:
    """Speed beside torch's; tables go to the output folder as benchmark_<part>.json."""
    program = str(tree / "tests/benchmarks/gpu.py")
    return Stage(
        "benchmark",
        [
            Case(
                name,
                machine.python(program, *options, f"--json={output}/benchmark_{name}.json"),
                environment=machine.environment(tree),
                seconds=480,
            )
            for name, options in (
                ("mm", ("--parts=mm",)),
                ("attention", ("--parts=attention",)),
                ("decoder", ("--parts=decoder",)),
                ("threads", ("--parts=threads",)),
                ("choices", ("--parts=choices",)),
                *((case, ("--parts=models", f"--cases={case}")) for case in _MODELS),
            )
        ],
    )


STAGES: dict[str, Callable[[Path, Path], Stage]] = {
    stage.__name__: stage
    for stage in (
        *(setup, gtests, memcheck, export, lifecycle, cpu, benchmark),
        *(random_cpu, random_cuda, survey),
    )
}

# Cases of tests/benchmarks/cuda/networks.py.
_MODELS = (
    *("mlp_b8", "transformer_t1", "transformer_t16", "transformer_4x512"),
    *("convnet_b4", "convnet_b8", "resnet50_b1", "resnet50_b32"),
    *("vit_b16_b1", "vit_b16_b32", "bert_base_128"),
)

# Of these the bundle has what BUILD.bazel lists.
_CPU_FOLDERS = (
    "pteron/backends/aoti/passes/tests",
    "pteron/backends/aoti/tests",
    "pteron/backends/cpu/tests",
    "pteron/exir/tests",
    "pteron/exir/verification/tests",
    "tests/e2e",
)

# Of one call; what is left then is for the next.
_CONTINUED_SECONDS = 420

# Begun first.
_LONG = ("test_cuda_export", "test_cuda_choices")

# Tests that measure the GPU's free memory or time of their own.
_ALONE = (
    "test_cuda_service",
    "test_cuda_stacked",
    "test_cuda_threads",
    "test_cuda_unload",
    "test_cuda_weights",
)


def _continued(
    name: str, folder: str, tree: Path, output: Path, *options: str, jobs: int, skip: str = ""
) -> Stage:
    """One case, a program of tests/, which keeps what it has done in the output folder."""
    program = str(tree / f"tests/{folder}/run.py")
    limits = (f"--jobs={min(jobs, os.cpu_count() or 1)}", f"--seconds={_CONTINUED_SECONDS}")
    return Stage(
        name,
        [
            Case(
                "modules",
                machine.python(program, *options, *limits, f"--output={output}/{name}"),
                environment=machine.environment(tree),
                seconds=_CONTINUED_SECONDS + 60,
                skip=skip,
                unfinished=75,
            )
        ],
    )


def _cuda_tests(tree: Path) -> list[Path]:
    tests = sorted((tree / "pteron/backends/cuda/tests").glob("test_*.py"))
    return tests + sorted((tree / "tests/e2e").glob("test_cuda_*.py"))


def _gtests(tree: Path) -> list[Path]:
    return sorted(path for path in (tree / "bin").iterdir() if path.name.startswith("test_"))


def _spread() -> tuple[str, ...]:
    return _SPREAD if machine.has_module("xdist") else ()


def _pytest(name: str, tree: Path, tests: list[Path], options: tuple[str, ...]) -> Stage:
    return Stage(
        name,
        [
            Case(
                test.stem,
                machine.python(*_PYTEST, *options, f"--rootdir={tree}", str(test)),
                junit_counts,
                "--junitxml=",
                machine.environment(tree),
                seconds=420,
                skip="" if machine.has_module("pytest") else "there is no pytest on this machine",
            )
            for test in tests
        ],
    )
