"""The stages of a bundle: what each runs, over the unpacked tree; results go to `output`."""

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tools.gpu import machine
from tools.gpu.stage import Case, Stage

_PYTEST = (
    *("-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "no:warnings"),
    *("--tb=short", "--show-capture=no", "--import-mode=importlib"),
)
# Lowers models, several at a time if pytest-xdist is installed; a model stays in one process.
_SPREAD = ("-n", "6", "--dist=loadgroup")

# Cases that lower models, at a time: each compiles on several cores.
_AT_A_TIME = max(4, (os.cpu_count() or 1) // 8)

# Begun first.
_LONG = ("test_cuda_export", "test_cuda_choices")

# Tests that measure the GPU's free memory or time of their own.
_ALONE = (
    "test_cuda_devices",
    "test_cuda_service",
    "test_cuda_stacked",
    "test_cuda_threads",
    "test_cuda_unload",
    "test_cuda_weights",
)

# Of one call; what is left then is for the next.
_CONTINUED_SECONDS = 420

# Cases of tests/benchmarks/cuda/networks.py.
_MODELS = (
    *("mlp_b8", "transformer_t1", "transformer_t16", "transformer_4x512"),
    *("convnet_b4", "convnet_b8", "resnet50_b1", "resnet50_b32"),
    *("vit_b16_b1", "vit_b16_b32", "bert_base_128"),
)
_PARTS = ("mm", "attention", "decoder", "threads", "choices")


def setup(tree: Path, output: Path) -> Stage:
    """What the machine has, and the Python binding compiled for its Python."""
    facts = "import sys, torch; print(sys.version, torch.__version__, torch.cuda.get_device_name())"
    runtime = "from pteron.runtime import Runtime; print(Runtime.get())"
    return Stage(
        "setup",
        [
            Case("gpu", ("nvidia-smi",)),
            Case("python", (sys.executable, "-c", facts)),
            Case("binding", (sys.executable, str(tree / "tools/gpu/binding.py")), seconds=400),
            Case("import", (sys.executable, "-c", runtime)),
        ],
    )


def gtests(tree: Path, output: Path) -> Stage:
    """Every C++ test, alone on the GPU: some look at its free memory."""
    return Stage("gtests", _gtests(tree, (), seconds=300))


def memcheck(tree: Path, output: Path) -> Stage:
    """The same under compute-sanitizer."""
    sanitizer = machine.program("compute-sanitizer")
    command = (
        *(sanitizer, "--tool=memcheck", "--error-exitcode=86", "--print-limit=20"),
        # Tests make calls that fail, on purpose, and some make none at all.
        *("--report-api-errors=no", "--require-cuda-init=no"),
    )
    missing = "" if sanitizer else "there is no compute-sanitizer on this machine"
    return Stage("memcheck", _gtests(tree, command, seconds=450, skip=missing))


def export(tree: Path, output: Path) -> Stage:
    """Models lowered on this machine and run: Python, runner."""
    others = [test for test in _cuda_tests(tree) if test.stem not in _ALONE]
    others.sort(key=lambda test: test.stem not in _LONG)
    return Stage("export", _pytest(tree, others, _spread()), parallel=_AT_A_TIME)


def lifecycle(tree: Path, output: Path) -> Stage:
    """Loading, running and unloading over and over; threads. Alone on the GPU."""
    tests = [test for test in _cuda_tests(tree) if test.stem in _ALONE]
    return Stage("lifecycle", _pytest(tree, tests, ()))


def cpu(tree: Path, output: Path) -> Stage:
    """Lowering for the CPU, and running that, with this machine's torch and compiler: of the tests
    what BUILD.bazel lists."""
    found = [*(tree / "pteron").rglob("tests/test_*.py"), *(tree / "tests/e2e").glob("test_*.py")]
    tests = sorted(set(found) - set(_cuda_tests(tree)))
    return Stage("cpu", _pytest(tree, tests, _spread()), parallel=_AT_A_TIME)


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
    program = (sys.executable, str(tree / "tests/benchmarks/gpu.py"))
    parts: dict[str, tuple[str, ...]] = {part: (f"--parts={part}",) for part in _PARTS}
    parts |= {case: ("--parts=models", f"--cases={case}") for case in _MODELS}
    return Stage(
        "benchmark",
        [
            Case(name, (*program, *options, f"--json={output}/benchmark_{name}.json"), seconds=480)
            for name, options in parts.items()
        ],
    )


STAGES: dict[str, Callable[[Path, Path], Stage]] = {
    stage.__name__: stage
    for stage in (
        *(setup, gtests, memcheck, export, lifecycle, cpu, benchmark),
        *(random_cpu, random_cuda, survey),
    )
}


def _continued(
    name: str, folder: str, tree: Path, output: Path, *options: str, jobs: int, skip: str = ""
) -> Stage:
    """One case, a program of tests/, which keeps what it has done in the output folder."""
    command = (
        *(sys.executable, str(tree / f"tests/{folder}/run.py"), *options),
        *(f"--jobs={min(jobs, os.cpu_count() or 1)}", f"--seconds={_CONTINUED_SECONDS}"),
        f"--output={output}/{name}",
    )
    seconds = _CONTINUED_SECONDS + 60
    return Stage(name, [Case("modules", command, seconds=seconds, skip=skip, unfinished=75)])


def _cuda_tests(tree: Path) -> list[Path]:
    tests = sorted((tree / "pteron/backends/cuda/tests").glob("test_*.py"))
    tests += sorted((tree / "tests/e2e").glob("test_cuda_*.py"))
    return [*tests, tree / "tests/compat/test_compat.py"]


def _gtests(tree: Path, command: tuple[str, ...], seconds: float, skip: str = "") -> list[Case]:
    return [
        Case(test.name, (*command, str(test)), "--gtest_output=xml:", seconds, skip)
        for test in sorted((tree / "bin").glob("test_*"))
    ]


def _spread() -> tuple[str, ...]:
    return _SPREAD if machine.has_module("xdist") else ()


def _pytest(tree: Path, tests: Iterable[Path], options: tuple[str, ...]) -> list[Case]:
    command = (sys.executable, *_PYTEST, *options, f"--rootdir={tree}")
    missing = "" if machine.has_module("pytest") else "there is no pytest on this machine"
    return [Case(t.stem, (*command, str(t)), "--junitxml=", 420, missing) for t in tests]
