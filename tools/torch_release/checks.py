"""What is asked of a release of torch: tests of this repository, and what to do when they fail."""

import dataclasses

_LINEAR = """
import tempfile, pteron, torch
with tempfile.TemporaryDirectory() as folder:
    pteron.export(torch.nn.Linear(4, 3).eval(), (torch.randn(2, 4),), folder + "/linear.pte")
"""

#: Of exir/tests: what traces, decomposes and lowers.
_GRAPHS = (
    "antialiased_resizing complex_numbers decompositions devices explain linear_algebra "
    "model_graph nesting passes program recurrent_cells recurrent_layers sampling state undelegated"
).split()
#: Of tests/e2e.
_PROGRAMS = (
    "caches changed_inputs complex denormals describe empty_batches failed_checks flex_attention "
    "gpt library_operators number_inputs operators packed_products parameter_views recurrent "
    "related_sizes rounding"
).split()


@dataclasses.dataclass(frozen=True)
class Check:
    """Tests that run with the release, in one process.

    Attributes:
        name: what --checks and the table call it.
        tests: test modules, as paths from this repository's root; empty for "a Linear lowers".
        advice: what to do when some fail.
        lowers: whether it says anything of a release that does not lower a Linear.
    """

    name: str
    tests: tuple[str, ...]
    advice: str
    lowers: bool = True

    def command(self, python: str) -> tuple[str, ...]:
        """Runs it, in the runfiles of this repository."""
        if not self.tests:
            return (python, "-c", _LINEAR)
        # Modules of these are known as pteron.backends and pteron.exir.
        is_product = self.tests[0].startswith(("backends/", "exir/"))
        paths = (f"../_pteron_py/pteron/{path}" if is_product else path for path in self.tests)
        rootdir = "--rootdir=.." if is_product else "--rootdir=."
        return (python, "tools/build/pytest_main.py", rootdir, "-rfE", "--tb=short", *paths)


LINEAR = Check(
    "linear",
    (),
    "see to the places that its error names, in backends/aoti/inductor",
    lowers=False,
)

CHECKS = (
    LINEAR,
    Check(
        "places",
        ("backends/aoti/tests/test_release.py",),
        "say in backends/aoti/inductor what the release has instead of the places that are named; "
        "then write recorded_places.json there again",
        lowers=False,
    ),
    Check(
        "signatures",
        ("backends/aoti/tests/test_shim_signatures.py",),
        "compare backends/aoti/ops with the headers in torch/include/torch/csrc/inductor/"
        "aoti_torch of the release",
        lowers=False,
    ),
    Check(
        "repairs",
        ("backends/aoti/tests/test_repairs.py",),
        'where a test says "torch has fixed this", limit the repair in backends/aoti/inductor to '
        "the releases before; else the place that it patches has changed",
    ),
    Check(
        "graphs",
        tuple(f"exir/tests/test_{name}.py" for name in _GRAPHS),
        "the release exports, decomposes or traces in another way: see to exir or to the pass that "
        "the test names",
    ),
    Check(
        "programs",
        tuple(f"tests/e2e/test_{name}.py" for name in _PROGRAMS),
        "lower the program alone: tools/bazel test //tests/e2e:all --test_filter=NAME with "
        "--repo_env=PTERON_TORCH=",
    ),
    Check(
        "faults",
        ("tests/e2e/test_known_inductor_faults.py",),
        "the release computes wrongly what others do not: repair it in backends/aoti/inductor",
    ),
    Check(
        "models",
        ("tests/e2e/test_cpu_models.py",),
        "lower the model alone: tools/bazel test //tests/e2e:test_cpu_models --test_filter=NAME "
        "with --repo_env=PTERON_TORCH=",
    ),
    Check(
        "random",
        ("tests/random/test_random_modules.py",),
        "see one seed alone: tools/bazel run //tests/random -- --output=FOLDER --seeds=7:8 "
        "--together=1, with --repo_env=PTERON_TORCH=",
    ),
    Check(
        "survey",
        ("tests/survey/test_architectures.py",),
        "see one architecture alone: tools/bazel run //tests/survey -- --output=FOLDER "
        "--models=NAME, with --repo_env=PTERON_TORCH=",
    ),
)
